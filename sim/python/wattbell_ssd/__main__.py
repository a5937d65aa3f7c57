"""``python -m wattbell_ssd``: where the header and the library for C are."""

from . import C_FOLDER

print(C_FOLDER)
