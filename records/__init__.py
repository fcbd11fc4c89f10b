"""Records that packages exchange, and the files and folders that hold them.

Other packages import from these modules:

- `arm_record`: `CurvePoint`, `ArmRecord`
- `data_card`: `FunnelStep`, `SetReport`, `Survey`, `SourceCard`, `DataCard`
- `declarations`: `declared`
- `digest`: `canonical`, `digest`
- `errors`: `UserError`, `FellShort`, `ConfigError`, `require_known`
- `evaluation`: `Score`, `Behaviour`, `InstructionNumbers`, `CategoryScore`, `FunctionCallNumbers`
- `fingerprint`: `fingerprint`
- `files`: `write_text`, `write_bytes`, `write_json`, `read_text`, `read_json`
- `finished_results`: `refuse_to_replace`, `finished`
- `garbage`: `collect_rarely`
- `group`: `Group`, `grouped`
- `job_client`: `hand_over`
- `job_server`: `start`, `JobServer`, `main`
- `machine`: `Machine`, `this_machine`
- `manifest`: `Manifest`, `write_folder`, `list_folder`, `verify`
- `problem`: `Problem`
- `problem_params`: `ProblemParams`, `Generated`, `Options`, `Instruction`, `Instructions`, `FunctionEntry`
- `repository_module`: `run_bench_module`
- `run_folder`: `RunFolder`
- `run_progress`: `fold_lines`, `RunProgress`
- `seeds`: `derive_seed`
- `stages`: `StageKind`, `Stage`
- `statistics`: `PairedDifference`, `num_samples_per_question`, `avg_at_k`, `pass_at_k_by_question`,
  `pass_hat_k_by_question`
- `stored`: `Stored`, `read_record`, `first_problem`, `write_record`
- `token_table`: `AFTER_TOOL`, `SCHEMA`
- `tool_call`: `Status`, `Limits`, `ToolCall`, `ToolError`, `ToolResult`
- `trajectory`: `StopReason`, `CallKind`, `IdsSource`, `Turn`, `Rollout`
- `trajectory_files`: `write_parquet`, `read_parquet`, `kept_for_disk`, `write_shard`, `read_shard`
- `trajectory_row`: `to_row`, `from_row`
- `usage`: `Usage`, `end_of_imports`, `record_usage`
- `verdict`: `VerdictKind`, `Verdict`, `reward_of`
"""
