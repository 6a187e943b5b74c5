"""Pictures and pages: attention heatmaps, learning curves, the report of a trained model."""

from __future__ import annotations

from luong.view.curves import learning_curves
from luong.view.heatmap import heatmap
from luong.view.page import write_report

__all__ = ["heatmap", "learning_curves", "write_report"]
