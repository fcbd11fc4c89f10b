"""The stages of a run: base checkpoint, filter of hard problems, RL stages, export.

Other packages import from these modules:

- `base_checkpoint`: `make_base`
- `conversation_rows`: `write_rows`
- `export`: `export`
- `hard_filter`: `filter_hard`, `load_hard`
- `rl_job`: `run_stage`, `journal_seconds`, `copy_journal`, `copy_tokenizer`
- `solve_rates`: `Policy`, `measure`
"""
