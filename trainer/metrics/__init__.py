"""Numbers of a step, alarms, sinks, and the token table of a checkpoint.

Other packages import from these modules:

- `alarms`: `alarms`
- `rollout_text`: `chosen`, `rollout_text`
- `selection_metrics`: `selection_metrics`
- `sinks`: `Sinks`, `open_sinks`
- `step_clock`: `Laps`, `StepClock`
- `step_metrics`: `is_rewarded`, `rollout_metrics`, `group_metrics`, `progress_note`
- `token_table`: `score_samples`
- `update_metrics`: `update_metrics`
"""
