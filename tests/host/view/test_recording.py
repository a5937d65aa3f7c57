"""A capture that is being recorded: shown as far as it has come, then whole, without the page being opened again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient
from wattbell.capture import CaptureWriter, blocks, hashes, open_capture
from wattbell.errors import UsageError
from wattbell.view.server import make_app
from wattbell.view.shown import Shown, align

MS = 1_000_000


def test_a_capture_that_is_being_completed_is_shown_as_far_as_it_has_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long capture is hashed for minutes; it is not damaged meanwhile, and the page goes on."""
    path = tmp_path / "capture"
    told = []
    sums = hashes.sums

    def asked_meanwhile(*arguments: object, **options: object) -> object:
        for name in ("capture", "rail", "latest"):
            told.append(client.get(f"/{'t' * 32}/api/0/{name}"))
        return sums(*arguments, **options)  # type: ignore[arg-type]

    with CaptureWriter(path, journal=False, lba_size_bytes=512, conditions={"virtual": True}) as writer:
        writer.begin_live()
        writer.add_rail_source(blocks(0, 10_000, np.full(30_000, 3.2, np.float32), np.ones(30_000, np.float32)))
        writer.look()
        client = TestClient(make_app([Shown(path)], "t" * 32), base_url="http://127.0.0.1")
        monkeypatch.setattr(hashes, "sums", asked_meanwhile)
    assert [answer.status_code for answer in told] == [200, 200, 200]
    assert told[0].json()["live"] and told[2].json()["w"] == pytest.approx(3.2)
    assert client.get(f"/{'t' * 32}/api/0/capture").json()["state"] == "complete"
    assert "live.bin" not in open_capture(path).meta["files"] and not (path / "live.bin").exists()


def test_from_the_first_sample_to_the_complete_capture(tmp_path: Path) -> None:
    with CaptureWriter(tmp_path / "capture", journal=False, lba_size_bytes=512, conditions={"virtual": True}) as writer:
        live = writer.begin_live()
        live.flush()
        shown = Shown(tmp_path / "capture")
        client = TestClient(make_app([shown], "t" * 32), base_url="http://127.0.0.1")

        def ask(name: str, code: int = 200, **parameters: object):  # type: ignore[no-untyped-def]
            answer = client.get(f"/{'t' * 32}/api/0/{name}", params=parameters)  # type: ignore[arg-type]
            assert answer.status_code == code, answer.text[:200]
            return answer.json()

        empty = ask("capture")
        assert empty["state"] == "recording" and empty["live"] and empty["end"] == 0 and not empty["has"]["rail"]
        assert ask("rail")["t"] == [] and ask("latest")["w"] is None and ask("latest")["lost"] == []
        watts = np.full(300_000, 2.0, np.float32)
        writer.add_rail_source(blocks(5 * MS, 10_000, np.full(300_000, 3.2, np.float32), watts / np.float32(3.2)))
        live.flush()
        told = ask("capture")
        assert told["has"]["rail"] and told["end"] == pytest.approx(3000 * MS, rel=0.01)
        rail = ask("rail", begin=1000 * MS, end=2000 * MS, points=20)
        assert rail["power"]["mean"] == pytest.approx([2.0] * len(rail["t"]), rel=1e-5) and not rail["raw"]
        assert all(900 * MS < t < 2200 * MS for t in rail["t"])
        latest = ask("latest")
        assert latest["w"] == pytest.approx(2, rel=1e-5) and latest["energy_j"] == pytest.approx(6, rel=0.01)
        assert set(latest) >= {"t", "w", "a", "v", "read_mb_per_s", "write_mb_per_s", "iops", "p99_s", "energy_j", "lost", "left_s"}
        assert ask("load", points=10)["depth_max"] == [None] * len(ask("load", points=10)["t"])
        for later in ("commands", "span", "figures", "energy", "export?format=csv", "find?what=gap"):
            assert "being recorded" in client.get(f"/{'t' * 32}/api/0/{later}").json()["error"]
        with pytest.raises(UsageError, match="being recorded"):
            align([shown], "1")
    told = ask("capture")
    assert told["state"] == "complete" and not told["live"] and told["rail"]["samples"] == 300_000
    assert ask("latest", 409)["error"] == "The capture is not being recorded."
    assert ask("span")["energy_j"] == pytest.approx(6, rel=1e-3)
