"""Types of numbers and names in a measurable range, for documents that may come from anywhere."""

from __future__ import annotations

from typing import Annotated

import msgspec

LARGEST = 1e30
"""No quantity that a rig can measure is larger. Sums and axes of larger ones would overflow."""

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=1000)]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Number = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
