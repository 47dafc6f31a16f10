"""Benchmarks: ratios measured side by side in one run. Not tests: nothing here can fail."""
