"""Experiment arms: training, evaluation and endpoints of one arm.

Other packages import from these modules:

- `arm`: `run_arm`, `summarise_main`
- `sft_variant`: `make_origin`
"""
