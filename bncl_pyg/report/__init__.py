"""One page to look at: what a model says of texts, and why; self-contained HTML."""

from bncl_pyg.report.collect import collect_report
from bncl_pyg.report.data import DrawnGraph, Example, LabelRow, Method, ReportData, ShownText, Truth
from bncl_pyg.report.render import render_explanation, render_report

__all__ = [
    "DrawnGraph",
    "Example",
    "LabelRow",
    "Method",
    "ReportData",
    "ShownText",
    "Truth",
    "collect_report",
    "render_explanation",
    "render_report",
]
