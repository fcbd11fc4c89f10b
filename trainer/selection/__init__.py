"""Rewards, GRPO-RoC and baselines, which turn rollouts into advantages.

Other packages import from these modules:

- `advantage`: `advantages`
- `grading`: `Grading`, `grading_of`
- `group_selection`: `GroupSelection`, `select_group`, `selection_rule`
- `reward`: `reward_function`
- `roc`: `SelectionRule`, `pressure`
- `roc_release`: `refused_splits`
"""
