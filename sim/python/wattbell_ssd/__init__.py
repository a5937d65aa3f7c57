"""An NVMe SSD model as a PCIe endpoint: TLPs in, TLPs with times and power out.

``python -m wattbell_ssd`` prints the folder with the same model for C: a header and a library.
"""

from pathlib import Path

from ._model import Drive, DriveError, profile_text, profiles

C_FOLDER = Path(__file__).resolve().parent / "c"
"""Has ``wattbell_ssd.h`` and ``libwattbell_ssd_c.so``."""

__all__ = ["C_FOLDER", "Drive", "DriveError", "profile_text", "profiles"]
