"""A drive against a lab's requirements, in pytest: ``pytest --wattbell-virtual intel-660p-1tb --wattbell-requirements lab.toml``."""

import pytest


def test_the_drive_is_the_one_we_bought(drive):
    assert drive.capacity_bytes >= 1_000_000_000_000
    assert drive.non_operational, "a laptop's drive must have a state to sleep in"


@pytest.mark.each_requirement
def test_requirement(suite, judge):
    judge(suite("quick", tests=["idle", "idle-wake-up"]))
