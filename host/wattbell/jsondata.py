"""JSON as Python has it: parts of a file or of an answer, before they are checked or as they are to be written."""

from typing import Any

Json = Any
"""Any value that ``json.dumps`` takes."""
JsonObject = dict[str, Json]
"""An object of a document with keys defined elsewhere: in a schema, in docs/, or by the program that reads it."""
