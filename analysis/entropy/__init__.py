"""Entropy of sampled tokens: forking and reflection tokens, their controls and traces.

Other packages import from these modules:

- `controls`: `NotAvailable`, `position_in_turn`, `guarded_contrast`
- `entropy`: `choose_trajectories`, `profile`
- `entropy_files`: `write_study`
"""
