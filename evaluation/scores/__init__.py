"""Score rows with intervals, from graded samples.

Other packages import from these modules:

- `behaviour`: `behaviour`
- `bfcl`: `function_scores`, `function_row`
- `ifeval`: `instruction_scores`, `instruction_row`
- `score_rows`: `Slice`, `outcomes_of`, `score`, `consensus`, `without_known_issues`
"""
