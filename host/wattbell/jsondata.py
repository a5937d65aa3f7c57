"""JSON as Python has it: parts of a file or of an answer, before they are checked or as they are to be written."""

from typing import Any

Json = Any
"""What ``json.dumps`` takes."""
JsonObject = dict[str, Json]
"""An object of a document whose keys are told elsewhere: in a schema, in docs/, or by the program that reads it."""
