"""Commands on the wire that set a feature or read a log page. They date a drive's own account of itself."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl
from wattbell_spec.nvme import admin

from ..analysis.context import Context


class LogCommand(NamedTuple):
    """A command that ended with success.

    reads : a Get Log Page; else a Set Features.
    fetch_tick : of its SQE; without a fetch the doorbell's tick, and without a doorbell the CQE's.
    cdw11 : Dword 11, which selects the action of some features.
    """

    reads: bool
    fetch_tick: int
    cqe_tick: int
    cdw11: int


def log_commands(context: Context, log_page: int | None, feature: int | None) -> list[LogCommand]:
    """Return the commands that set the feature or read the log page, by their CQE. None: no such page, or no such feature."""
    get_log, set_features = admin("get_log_page"), admin("set_features")
    number = pl.col("slba") & 0xFF  # CDW10
    reads = (pl.col("opcode") == get_log) & (number == log_page) if log_page is not None else pl.lit(False)
    sets = (pl.col("opcode") == set_features) & (number == feature) if feature is not None else pl.lit(False)
    ours = (pl.col("qid") == 0) & (reads | sets) & (pl.col("status") == 0) & pl.col("cqe_tick").is_not_null()
    begin = pl.coalesce("fetch_tick", "doorbell_tick", "cqe_tick")
    found = context.capture.commands.filter(ours).select("opcode", begin, "cqe_tick", "blocks").sort("cqe_tick").collect()
    return [LogCommand(opcode == get_log, fetch, cqe, word) for opcode, fetch, cqe, word in found.iter_rows()]
