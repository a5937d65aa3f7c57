"""The wire format page matches the specification it is generated from."""

from __future__ import annotations

from wattbell_spec import wire as spec
from wattbell_spec import wire_page


def test_every_field_and_every_member_is_on_it() -> None:
    page = wire_page.markdown()
    tables = (spec.HEADER, spec.COMMAND, spec.RAIL_HEADER, spec.RAIL_SAMPLE, spec.EVENT, spec.TLP_HEADER, spec.STATUS, spec.LINK)
    for fields in tables:
        for field in fields:
            assert f"`{field.name}`" in page
    enums = (
        spec.CommandFlag,
        spec.RailFlag,
        spec.EventType,
        spec.LinkState,
        spec.ResetCause,
        spec.MarkerSource,
        spec.LossSource,
        spec.GuessReason,
        spec.MalformedClass,
        spec.BlockContent,
        spec.TlpFate,
    )
    for kind in enums:
        for member in kind:
            assert f"`{member.name}`" in page
