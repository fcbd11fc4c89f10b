"""Stored results of a run, checked as they are read.

Other packages import from these modules:

- `evaluation`: `CheckedEvaluation`, `read_evaluation`
- `finite`: `finite`
- `lineage`: `check_run`, `require_own`, `write_lineage`, `require_lineage`
- `reference`: `read_reference`
- `runs`: `Run`, `find_score`
- `sample_table`: `read_sample_table`, `scored_samples`, `graded`
- `samples`: `read_scored`, `read_turns`
"""
