"""From a capture to figures: :func:`analyze` computes them."""

from ..measure.depth import DepthSteps, depth_steps
from ..measure.figure import SCHEMA_VERSION
from .analyze import analyze

__all__ = ["SCHEMA_VERSION", "DepthSteps", "analyze", "depth_steps"]
