"""From a capture to figures: :func:`figures_of` computes them, :func:`analyze` gives them as JSON."""

from ..measure.depth import DepthSteps, depth_steps
from .analyze import SCHEMA_VERSION, analyze, figures_of

__all__ = ["SCHEMA_VERSION", "DepthSteps", "analyze", "depth_steps", "figures_of"]
