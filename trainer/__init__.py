"""Trains a policy: problems, SFT, rollouts, selection, updates and stages. Commands are in `cli`.

Other packages import from these modules:

- `model`: `use_threads`, `head_weight`
- `weights`: `read_model`
"""
