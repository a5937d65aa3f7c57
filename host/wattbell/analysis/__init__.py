"""From a capture to figures: :func:`analyze` computes them."""

from ..measure.depth import DepthSteps, depth_steps
from .analyze import SCHEMA_VERSION, analyze

__all__ = ["SCHEMA_VERSION", "DepthSteps", "analyze", "depth_steps"]
