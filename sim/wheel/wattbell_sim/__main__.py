"""``python -m wattbell_sim``: where the simulator's files are."""

from . import FOLDER

print(FOLDER)
