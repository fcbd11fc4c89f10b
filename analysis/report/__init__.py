"""The page and the record of a run, and the checks of `verify`.

Other packages import from these modules:

- `bench_tables`: `scheduler_bench`, `sandbox_bench`, `scheduler_rows`, `makespan_ratios`, `sandbox_rows`
- `page`: `render`
- `parts`: `Parts`
- `report`: `build`, `inline_svg`
- `verify`: `verify`, `to_json`, `judge`
- `waterfall`: `read_usage`, `waterfall`
"""
