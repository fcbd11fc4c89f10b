"""Rewards, GRPO-RoC and baselines, which turn rollouts into advantages.

Other packages import from these modules:

- `advantage`: `advantages`
- `grading`: `Grading`, `grading_of`
- `group_selection`: `GroupSelection`, `select_group`
- `reward`: `reward_function`
- `roc`: `Candidate`, `select`, `pressure`
- `roc_release`: `release_counts`
"""
