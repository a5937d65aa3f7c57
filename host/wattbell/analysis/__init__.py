"""From a capture to figures: :func:`analyze` computes them."""

from .analyze import analyze
from .depth import DepthSteps, depth_steps
from .figures import SCHEMA_VERSION

__all__ = ["SCHEMA_VERSION", "DepthSteps", "analyze", "depth_steps"]
