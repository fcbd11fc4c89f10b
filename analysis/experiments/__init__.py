"""Experiment arms: contrasts, the ablation page and its figures.

Other packages import from these modules:

- `ablations`: `write_ablations`
- `arms`: `ArmContrast`, `records_in`, `read_run_arms`, `by_arm`, `difference`
- `sampling_grid`: `table_of`
"""
