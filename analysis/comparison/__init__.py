"""Two runs side by side.

Other packages import from these modules:

- `compare`: `compare_runs`, `to_markdown`
- `identity`: `leaves`
"""
