"""Measurements of quality and speed; every script writes JSON and Markdown under `benchmarks/results/`."""
