"""Names of opcodes and status codes by number (NVM Express Base 2.0, figures of opcodes and of status values)."""

from __future__ import annotations

import pytest
from wattbell.analysis.names import ADMIN_OPCODES, IO_OPCODES, admin_name, io_name, size_text, status_name
from wattbell.measure.table import SIZED_OPCODES
from wattbell_spec.nvme import TRANSFER_OPCODES

ADMIN = """00 delete_io_sq 01 create_io_sq 02 get_log_page 04 delete_io_cq 05 create_io_cq 06 identify 08 abort 09 set_features
0a get_features 0c async_event_request 0d namespace_management 10 firmware_commit 11 firmware_download 14 device_self_test
15 namespace_attachment 18 keep_alive 19 directive_send 1a directive_receive 1c virtualization_management 1d nvme_mi_send 1e nvme_mi_receive
7c doorbell_buffer_config 80 format_nvm 81 security_send 82 security_receive 84 sanitize"""
IO = """00 flush 01 write 02 read 04 write_uncorrectable 05 compare 08 write_zeroes 09 dsm 0c verify 0d reservation_register
0e reservation_report 11 reservation_acquire 12 io_management_receive 15 reservation_release 18 cancel 19 copy 1d io_management_send
79 zone_management_send 7a zone_management_receive 7d zone_append"""


def table(text: str) -> dict[int, str]:
    words = text.split()
    return {int(number, 16): name for number, name in zip(words[::2], words[1::2])}


def test_opcodes_have_the_numbers_of_the_specification() -> None:
    assert table(ADMIN) == ADMIN_OPCODES
    assert table(IO) == IO_OPCODES
    assert (io_name(0x91), admin_name(0x03)) == ("opcode_91", "opcode_03")


def test_data_crosses_the_link_for_write_read_and_compare() -> None:
    """Bits 1:0 of an opcode are its direction; Write Uncorrectable, Write Zeroes, Verify and Dataset Management move no user data."""
    assert set(TRANSFER_OPCODES) == {1, 2, 5}
    assert {1, 2, 5, 8, 9, 0x0C} <= set(SIZED_OPCODES) and 0 not in SIZED_OPCODES, "a Flush has no blocks"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0x0002, "0/02 Invalid Field in Command"),
        (0x0080, "0/80 LBA Out of Range"),
        (0x0101, "1/01 Invalid Queue Identifier"),
        (0x01BC, "1/bc Zone Invalid Write"),
        (0x0280, "2/80 Write Fault"),
        (0x0281, "2/81 Unrecovered Read Error"),
        (0x0285, "2/85 Compare Failure"),
        (0x0303, "3/03"),
        (0x07FF, "7/ff"),
        (0x4281, "2/81 Unrecovered Read Error"),
    ],
)
def test_a_status_is_its_type_and_its_code(status: int, text: str) -> None:
    assert status_name(status) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (512, "512 B"),
        (1024, "1 KiB"),
        (1536, "1536 B"),
        (4096, "4 KiB"),
        (1 << 20, "1 MiB"),
        (3 << 19, "1536 KiB"),
        (1 << 30, "1 GiB"),
    ],
)
def test_sizes_are_binary(size: int, text: str) -> None:
    assert size_text(size) == text
