"""The door for files from outside: its refusals, and that the package has no other."""

from __future__ import annotations

import ast
import os
import socket
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import wattbell
from wattbell import door

PACKAGE = Path(wattbell.__file__).parent
READERS = {
    "open", "read_text", "read_bytes", "fdopen", "fromfile", "memmap", "loadtxt", "genfromtxt",
    "read_csv", "read_parquet", "scan_parquet", "scan_csv", "read_json", "read_ndjson", "scan_ndjson", "read_ipc", "read_ipc_stream",
    "scan_ipc", "read_parquet_schema", "read_table", "read_metadata", "read_schema", "ParquetFile", "ParquetDataset", "dataset",
    "open_file", "open_stream", "memory_map", "OSFile", "input_stream", "ZipFile", "TarFile", "Reader", "connect", "copyfile", "copy2",
    "copytree", "copyfileobj", "mmap", "GzipFile", "LZMAFile", "BZ2File", "FileIO", "File",
}  # fmt: skip
"""Names of functions that open a file, of Python and of the libraries that the package uses, whatever they are called on."""
OF_THE_KERNEL = "a file of /proc, /sys or tracefs"
OF_THE_DRIVE = "the drive itself, which the guard has looked at"
OF_THE_PACKAGE = "a file of the package"
OWN = "what this process is writing, or has just written"
OTHER = "opens no file by a path"
CHECKED = "a path that the door has just checked"
EXCEPTIONS = {
    ("campaign/equipment.py", "Rig.open"): OTHER,
    ("campaign/runner.py", "bench.open"): OTHER,
    ("campaign/single.py", "bench.open"): OTHER,
    ("permissions.py", "Path('/proc/self/status').read_bytes"): "the kernel's words about this process",
    ("capture/arrowjournal.py", "pa.ipc.open_stream"): CHECKED,
    ("capture/identify.py", "pl.scan_parquet"): OWN,
    ("capture/journal.py", "os.open"): "its own journal, which it is writing: what memory has no room for is read back",
    ("capture/place.py", "os.open"): "only to lock the journal, without waiting; nothing is read",
    ("capture/rail.py", "pyjls.Reader"): CHECKED,
    ("capture/room.py", "mmap.mmap"): "memory of no file, to see whether there is any",
    ("capture/reader.py", "pl.read_parquet"): CHECKED,
    ("capture/reader.py", "pl.scan_parquet"): CHECKED,
    ("cli/calibrate.py", "Rig.open"): OTHER,
    ("cli/info.py", "Rig.open"): OTHER,
    ("cli/record.py", "Rig.open"): OTHER,
    ("cli/run.py", "Rig.open"): OTHER,
    ("cli/sump.py", "Rig.open"): OTHER,
    ("cli/view.py", "webbrowser.open"): OTHER,
    ("analysis/truth.py", "pl.scan_csv"): CHECKED,
    ("drive/bench.py", "gate.open"): OTHER,
    ("drive/device.py", "path.read_text"): OF_THE_KERNEL,
    ("drive/host.py", "path.read_text"): OF_THE_KERNEL,
    ("drive/inuse.py", "os.open"): "block devices: to claim them, and to ask a loop device what is behind it",
    ("drive/link.py", "file.read_bytes"): OF_THE_KERNEL,
    ("drive/marking.py", "(sys / 'class/nvme' / device.controller / 'state').read_text"): OF_THE_KERNEL,
    ("drive/pattern.py", "mmap.mmap"): OTHER,
    ("drive/pattern.py", "os.open"): OF_THE_DRIVE,
    ("drive/presence.py", "path.read_text"): OF_THE_KERNEL,
    ("drive/runner.py", "mmap.mmap"): OTHER,
    ("drive/runner.py", "os.open"): OF_THE_DRIVE,
    ("drive/settings.py", "path.read_text"): OF_THE_KERNEL,
    ("drive/settings.py", "(folder / 'scaling_available_governors').read_text"): OF_THE_KERNEL,
    ("drive/settings.py", "longest.read_text"): OF_THE_KERNEL,
    ("durable.py", "os.open"): "flushes what the process has written; nothing is read",
    ("extras.py", "record.read_text"): "what pip wrote of an installed package",
    ("formats/jls.py", "pyjls.Reader"): CHECKED,
    ("formats/ppk2session.py", "archive.open"): CHECKED,
    ("formats/sigrok.py", "archive.open"): CHECKED,
    ("formats/text.py", "pcsv.read_csv"): OTHER,
    ("hostlog/blktrace.py", "enabled.read_text"): OF_THE_KERNEL,
    ("hostlog/derived.py", "shutil.copytree"): "of a capture that was opened; shutil copies no pipe",
    ("hostlog/target.py", "file.read_text"): OF_THE_KERNEL,
    ("hostlog/tracefs.py", "(instance / 'trace_clock').read_text"): OF_THE_KERNEL,
    ("hostlog/tracefs.py", "(self._instance / 'per_cpu' / f'cpu{cpu}' / 'stats').read_text"): OF_THE_KERNEL,
    ("hostlog/tracefs.py", "(tracefs / 'events/header_page').read_text"): OF_THE_KERNEL,
    ("hostlog/tracefs.py", "(tracefs / 'events/nvme' / name / 'format').read_text"): OF_THE_KERNEL,
    ("hostlog/tracefs.py", "mounts.read_text"): OF_THE_KERNEL,
    ("hostlog/tracefs.py", "os.open"): OF_THE_KERNEL,
    ("importer/build.py", "shutil.copyfile"): "fio's output, which the importer has read already; shutil copies no pipe",
    ("meters/file.py", "File"): "our own class of that name, which reads through the door",
    ("meters/rig.py", "Rig.open"): OTHER,
    ("present/html.py", "file.read_text"): OF_THE_PACKAGE,
    ("present/html.py", "here.joinpath(script).read_text"): OF_THE_PACKAGE,
    ("present/html.py", "plotting.joinpath('uPlot.iife.js').read_text"): OF_THE_PACKAGE,
    ("results/store.py", "sqlite3.connect"): CHECKED,
    ("rig/discovery.py", "line.connect"): OTHER,
    ("rig/discovery.py", "open"): "a registration: looks at kind, owner and size as the door does",
    ("rig/discovery.py", "os.open"): "a registration: looks at kind, owner and size as the door does",
    ("results/seriesfile.py", "pq.ParquetFile"): "bytes that the door has read; their footer is judged",
    ("temporary.py", "os.open"): "folders of this user alone, opened for their lock",
    ("view/server.py", "file.read_text"): OF_THE_PACKAGE,
    ("view/server.py", "known[name].read_bytes"): OF_THE_PACKAGE,
    ("virtual/play.py", "Path(f'/proc/{pid}/stat').read_text"): OF_THE_KERNEL,
    ("version.py", "path.read_bytes"): OF_THE_PACKAGE,
    ("virtual/workload.py", "shutil.copy2"): "plain files of a workload's folder, copied whole; shutil copies no pipe",
    ("zoom/pyramid.py", "pa.ipc.open_file"): CHECKED,
    ("zoom/pyramid.py", "pa.memory_map"): CHECKED,
}


def _writes(call: ast.Call) -> bool:
    """Whether a call opens a file only to write it: by its mode, or by the flags of the system."""
    words = [ast.unparse(argument) for argument in call.args] + [ast.unparse(k.value) for k in call.keywords if k.arg in ("mode", "flags")]
    modes = {f"'{kind}{binary}'" for kind in "wxa" for binary in ("", "b")}
    return any(word in modes or "os.O_WRONLY" in word or ("os.O_CREAT" in word and "os.O_EXCL" in word) for word in words)


def _of_the_package(call: ast.Call) -> bool:
    """Whether the path begins at the package's own files."""
    return "files(" in ast.unparse(call.func)


def _readers() -> Iterator[tuple[str, str]]:
    """(file, function) of every call in the package that may open a file to read it, but the door's."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if path == PACKAGE / "door.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call):
                continue
            called = ast.unparse(node.func)
            name = called.rpartition(".")[2]
            if name in READERS and not called.startswith("door.") and not _writes(node) and not _of_the_package(node):
                yield path.relative_to(PACKAGE).as_posix(), called


def test_nobody_reads_a_file_past_the_door() -> None:
    found = set(_readers())
    past = sorted(found - EXCEPTIONS.keys())
    assert not past, f"read these through wattbell.door, or say in EXCEPTIONS why not: {past}"
    gone = sorted(EXCEPTIONS.keys() - found)
    assert not gone, f"no longer there: {gone}"


# -- what the door refuses -------------------------------------------------------------------------------------------

SMALL = door.FileKind("a small thing", 1 << 16)


def _plain(path: Path) -> None:
    path.write_bytes(b"text\r\n")


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _linked_fifo(path: Path) -> None:
    os.mkfifo(path.with_name("pipe"))
    path.symlink_to("pipe")


def _folder(path: Path) -> None:
    path.mkdir()


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _sparse(path: Path, size: int = 10**13) -> None:
    with open(path, "wb") as file:
        file.truncate(size)


BAD: list[tuple[Callable[[Path], None], str]] = [
    (_fifo, "named pipe"),
    (_linked_fifo, "named pipe"),
    (_folder, "Is a directory"),
    (_socket, "socket"),
    (_device, "character device"),
    (_sparse, "has 9.09 TiB"),
]
KINDS = [door.SETTINGS, door.DOCUMENT, door.TRACE, door.SERIES, door.LOG, door.RECORDING, door.STORE]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize(("make", "words"), BAD)
def test_what_is_no_plain_file_of_its_kind_is_refused(
    tmp_path: Path, make: Callable[[Path], None], words: str, kind: door.FileKind
) -> None:
    make(tmp_path / "x")
    for read in (door.check, door.open_file, door.read_bytes, door.read_text):
        with pytest.raises(OSError) as error:
            read(tmp_path / "x", kind)
        assert words in str(error.value.strerror) and error.value.filename == str(tmp_path / "x")


def test_a_plain_file_comes_through(tmp_path: Path) -> None:
    _plain(tmp_path / "x")
    (tmp_path / "link").symlink_to("x")
    for name in ("x", "link"):
        assert door.read_bytes(tmp_path / name, SMALL) == b"text\r\n"
        assert door.read_text(tmp_path / name, SMALL) == "text\n"
    with pytest.raises(OSError):
        door.open_file(tmp_path / "link", SMALL, follow=False)
    with pytest.raises(FileNotFoundError):
        door.read_bytes(tmp_path / "none", SMALL)


def test_the_limit_of_size_is_the_kinds(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(1 << 16))
    assert len(door.read_bytes(tmp_path / "x", SMALL)) == 1 << 16
    (tmp_path / "x").write_bytes(bytes((1 << 16) + 1))
    with pytest.raises(door.FileRefused, match="65537 bytes, and a small thing has 65536 bytes at most"):
        door.open_file(tmp_path / "x", SMALL)


def test_holes_of_gigabytes_are_refused_and_small_ones_are_not(tmp_path: Path) -> None:
    _sparse(tmp_path / "x", 10**11)
    with pytest.raises(door.FileRefused, match="93.1 GiB, of which the disk holds 0 bytes"):
        door.open_file(tmp_path / "x", door.RECORDING)
    _sparse(tmp_path / "y", 1 << 20)
    assert len(door.read_bytes(tmp_path / "y", door.SETTINGS)) == 1 << 20


def test_a_pipe_with_a_writer_is_no_plain_file_either(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "x")
    writer = os.open(tmp_path / "x", os.O_RDWR)
    try:
        os.write(writer, b"[]")
        with pytest.raises(door.FileRefused, match="named pipe"):
            door.read_bytes(tmp_path / "x", SMALL)
        assert os.read(writer, 10) == b"[]", "nothing was taken out of it"
    finally:
        os.close(writer)


def test_a_file_that_becomes_a_pipe_between_the_look_and_the_opening(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _plain(tmp_path / "x")
    look, before = os.stat, os.stat(tmp_path / "x")
    os.unlink(tmp_path / "x")
    os.mkfifo(tmp_path / "x")
    monkeypatch.setattr(os, "stat", lambda path, **more: before if path == tmp_path / "x" else look(path, **more))
    with pytest.raises(door.FileRefused, match="named pipe"):
        door.open_file(tmp_path / "x", SMALL)


# -- Parquet: a footer is written by hand, in Thrift's compact protocol ---------------------------------------------------


def _varint(number: int) -> bytes:
    out = bytearray()
    while True:
        number, low = number >> 7, number & 0x7F
        out.append(low | (0x80 if number else 0))
        if not number:
            return bytes(out)


def _zigzag(number: int) -> bytes:
    return _varint(((number << 1) ^ (number >> 63)) & ((1 << 64) - 1))


def _parquet(path: Path, *, rows: int, group_rows: int, offset: int = 4, packed: int = 40, whole: int = 40) -> None:
    """A Parquet file of one INT64 column ``x`` with a given footer (parquet.thrift of apache/parquet-format)."""
    schema = b"\x19\x2c" + b"\x48\x04root\x15\x02\x00" + b"\x15\x04\x25\x00\x18\x01x\x00"  # field 2: list of 2 structs
    about = b"\x15\x04" + b"\x19\x15\x00" + b"\x19\x18\x01x" + b"\x15\x00"  # type INT64, encodings [PLAIN], path [x], codec none
    about += b"\x16" + _zigzag(group_rows) + b"\x16" + _zigzag(whole) + b"\x16" + _zigzag(packed) + b"\x26" + _zigzag(offset) + b"\x00"
    column = b"\x26" + _zigzag(offset) + b"\x1c" + about + b"\x00"  # field 2 file_offset, field 3 meta_data
    group = b"\x19\x1c" + column + b"\x16" + _zigzag(whole) + b"\x16" + _zigzag(group_rows) + b"\x00"
    footer = b"\x15\x04" + schema + b"\x16" + _zigzag(rows) + b"\x19\x1c" + group + b"\x00"
    path.write_bytes(b"PAR1" + bytes(40) + footer + struct.pack("<I", len(footer)) + b"PAR1")


def test_a_possible_footer_that_was_written_by_hand_is_taken(tmp_path: Path) -> None:
    """The writer of the tests below is right: Arrow and the door take its file."""
    _parquet(tmp_path / "x", rows=5, group_rows=5)
    assert pq.read_metadata(tmp_path / "x").num_rows == 5
    assert door.parquet_metadata(tmp_path / "x").num_rows == 5


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"rows": 1 << 60, "group_rows": 1 << 60}, "1152921504606846976 rows in"),
        ({"rows": 5, "group_rows": 1 << 40}, "5 rows, and its row groups 1099511627776"),
        ({"rows": 1 << 40, "group_rows": 5}, "1099511627776 rows, and its row groups 5"),
        ({"rows": -5, "group_rows": -5}, "-5 rows"),
        ({"rows": 5, "group_rows": 5, "packed": 1 << 50}, "outside the file"),
        ({"rows": 5, "group_rows": 5, "offset": 1 << 50}, "outside the file"),
        ({"rows": 5, "group_rows": 5, "whole": 1 << 50}, "unpacks 40 bytes of column x"),
    ],
)
def test_a_footer_that_is_impossible_is_refused(tmp_path: Path, said: dict[str, int], words: str) -> None:
    _parquet(tmp_path / "x", **said)
    for read in (door.parquet_metadata, door.parquet_table, door.check_parquet):
        with pytest.raises(door.FileRefused, match=words):
            read(tmp_path / "x")


def test_the_length_of_a_footer_is_not_believed(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / "x")
    data = (tmp_path / "x").read_bytes()
    for length in (len(data), 0xFFFFFFFF, 0x7FFFFFFF):
        (tmp_path / "x").write_bytes(data[:-8] + struct.pack("<I", length) + b"PAR1")
        with pytest.raises(door.FileRefused, match="its footer says"):
            door.parquet_table(tmp_path / "x")


def test_honest_tables_come_through_however_well_they_are_packed(tmp_path: Path) -> None:
    packed = pa.table({"x": pa.array(range(3_000_000), pa.int64()), "same": pa.array([7] * 3_000_000, pa.int64())})
    pq.write_table(packed, tmp_path / "x", compression="zstd", use_dictionary=False, column_encoding="DELTA_BINARY_PACKED")
    pq.write_table(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "none")
    assert door.parquet_table(tmp_path / "x").equals(packed)
    assert door.parquet_table(tmp_path / "none").num_rows == 0
    assert door.parquet_table(tmp_path / "x", ["same"]).column_names == ["same"]


# -- ZIP -----------------------------------------------------------------------------------------------------------------


def _zip(path: Path, entries: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    with zipfile.ZipFile(path, "w", how) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path.read_bytes()


def test_a_zip_that_claims_to_unpack_to_more_than_deflate_can_is_refused(tmp_path: Path) -> None:
    data = _zip(tmp_path / "x", {"analog-1": b"abcd" * 100})
    place = data.index(b"PK\x01\x02") + 24  # uncompressed size in the central directory (APPNOTE.TXT 4.3.12)
    (tmp_path / "x").write_bytes(data[:place] + struct.pack("<I", 0xF0000000) + data[place + 4 :])
    with pytest.raises(door.FileRefused, match=r"analog-1 in it unpacks .* bytes to 3.75 GiB"), door.archive(tmp_path / "x"):
        pass


def test_files_of_a_zip_that_lie_upon_one_another_are_refused(tmp_path: Path) -> None:
    """A quoted-overlap bomb: many entries of the table of contents, one content."""
    data = bytearray(_zip(tmp_path / "x", {"a": b"1" * 1000, "b": b"1" * 1000}))
    second = data.rindex(b"PK\x01\x02") + 42  # offset of the local header
    data[second : second + 4] = struct.pack("<I", 0)
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(door.FileRefused, match="lie upon one another"), door.archive(tmp_path / "x"):
        pass


def test_a_zip_of_too_many_files_is_refused_and_one_of_zeros_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = bytes(100 << 20)
    _zip(tmp_path / "zeros", {"analog-1": zeros})
    with door.archive(tmp_path / "zeros") as archive:
        assert len(archive.read("analog-1")) == len(zeros)
    monkeypatch.setattr(door, "_MOST_ENTRIES", 3)
    _zip(tmp_path / "x", {str(n): b"" for n in range(4)})
    with pytest.raises(door.FileRefused, match="4 files in it"), door.archive(tmp_path / "x"):
        pass


def test_a_small_file_takes_little_memory_whatever_its_kind_may_have(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"recording")
    assert door.read_bytes(tmp_path / "f", door.RECORDING) == b"recording"
    assert door.read_bytes(tmp_path / "f", door.FileKind("letters", 9)) == b"recording"
