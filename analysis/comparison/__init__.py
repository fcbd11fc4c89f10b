"""Comparison of two runs.

Other packages import from these modules:

- `compare`: `compare_runs`, `to_markdown`
- `identity`: `leaves`
"""
