"""From a capture to figures: :func:`analyze` computes them, :func:`render` prints them."""

from .analyze import analyze
from .depth import DepthSteps, depth_steps
from .figures import SCHEMA_VERSION
from .render import render

__all__ = ["SCHEMA_VERSION", "DepthSteps", "analyze", "depth_steps", "render"]
