"""The router's rules on an empty board: areas of others' copper are gone around, loose ends go, remains of a fault are not taken over."""

from __future__ import annotations

import time

import numpy as np
import pytest
from board.layout import route
from board.layout.land import Pad
from board.layout.rail import _Made
from board.layout.track import Copper, Track, Via
from board.netlist import Design

from tests.patience import PATIENCE_S


@pytest.fixture
def router() -> route._Router:
    return route._Router()


def net(router: route._Router, name: str = "a", number: int = 1) -> route._Net:
    """Two pads of one node each, 10 mm apart on the back."""
    one = route._Net(name, number, False, None)
    one.groups = [[router.node((0.0, 20.0), 3)], [router.node((10.0, 20.0), 3)]]
    return one


def length(router: route._Router, one: route._Net) -> tuple[float, set[str]]:
    """mm of the way between them, and its layers."""
    way = router.route(one, one.groups[0], one.groups[1], None, 0, 2_000_000)
    made = route._draw(router, one, way, False)
    return sum(np.hypot(t.end[0] - t.start[0], t.end[1] - t.start[1]) for t in made.tracks), {t.layer for t in made.tracks}


def test_a_way_leaves_others_areas_and_crosses_its_own(router: route._Router) -> None:
    one = net(router)
    assert length(router, one) == (pytest.approx(10.0), {"B.Cu"})
    area = route._inside([(2.0, 10.0), (8.0, 10.0), (8.0, 30.0), (2.0, 30.0)])
    router.reserve("B.Cu", area, 7)
    _, layers = length(router, one)
    assert len(layers) == 2  # down and up again, on another layer below the area
    router = route._Router()
    router.reserve("B.Cu", area, 1)
    assert length(router, net(router)) == (pytest.approx(10.0), {"B.Cu"})


def test_what_lies_in_others_areas_is_not_taken_over(router: route._Router) -> None:
    one, way = net(router), Copper([Track("a", "B.Cu", (0.0, 20.0), (10.0, 20.0), 0.12)])
    assert router.fits(one, way)
    router.reserve("B.Cu", route._inside([(2.0, 10.0), (8.0, 10.0), (8.0, 30.0), (2.0, 30.0)]), 7)
    assert not router.fits(one, way)


def test_loose_ends_go_and_ways_stay(router: route._Router) -> None:
    one = net(router)
    whole = [Track("a", "B.Cu", (0.0, 20.0), (5.0, 20.0), 0.12), Track("a", "B.Cu", (5.0, 20.0), (10.0, 20.0), 0.12)]
    loose = [Track("a", "B.Cu", (5.0, 20.0), (5.0, 24.0), 0.12), Track("a", "In2.Cu", (5.0, 24.0), (7.0, 24.0), 0.12)]
    one.pieces = {0: Copper([*whole, *loose], [Via("a", (5.0, 24.0))])}
    route._prune(router, one)
    assert one.pieces[0] == Copper(whole, [])


def test_places_of_many_nodes_are_those_of_each(router: route._Router) -> None:
    nodes = [router.node(at, layer) for at in ((0.0, 0.0), (10.0, 22.0), (-3.0, 5.5)) for layer in (0, 3)]
    assert [(layer, (x, y)) for layer, x, y in router.places(nodes).round(4)] == [router.place(node) for node in nodes]


def test_a_search_joins_what_it_can_and_puts_back_what_it_cannot(router: route._Router) -> None:
    """Net a can be drawn. The way of c is walled in, so the copper that the search takes up for it has to be there again afterwards."""
    a, b, c = net(router, "a", 1), net(router, "b", 2), net(router, "c", 3)
    b.groups = [[router.node((0.0, 22.0), 3)], [router.node((10.0, 22.0), 3)]]
    c.groups = [[router.node((5.0, 40.0), 3)], [router.node((10.0, 24.0), 3)]]
    for one in (a, b, c):
        one.pads = [Pad("R1", "1", router.place(group[0])[1], (0.2, 0.2), ("B.Cu",), 0.0, False) for group in one.groups]
    nets = {one.name: one for one in (a, b)}
    route._route_net(router, nets, b, 0)
    a.open = 1
    route._search(router, nets, time.monotonic() + PATIENCE_S, 1, False)
    assert a.open == b.open == 0 and a.found.tracks and b.found.tracks
    router.copper(True, 15, (5.0, 40.0), (5.0, 40.0), (1.0, 1.0), 0.0, 0.1, 99)
    c.open = 1
    route._search(router, nets | {"c": c}, time.monotonic() + 1, 1, False)
    assert c.open == 1 and a.open == b.open == 0
    assert a.found.tracks and b.found.tracks


def test_a_scripted_via_keeps_its_distance_from_a_track() -> None:
    others = Copper([Track("a", "F.Cu", (0.0, 20.0), (10.0, 20.0), 0.2)], [Via("b", (5.0, 22.0))])
    made = _Made(Design(), {}, [], others)
    assert not made.put(Via("GND", (5.0, 20.44)))  # 0.1 + 0.15 + 0.2 are 0.45
    assert not made.put(Via("GND", (5.0, 21.55)))  # drills 0.5 apart
    assert made.put(Via("GND", (5.0, 20.46)))
    assert made.put(Via("a", (8.0, 20.1)))
    assert not made.put(Via("GND", (5.3, 20.6)))
