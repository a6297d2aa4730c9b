"""The paper's tables and the baselines a user would pick instead; run it as `python -m benchmarks.quality`."""
