"""Procedural problems with integer answers (families, compositions, splits by parameter hash), and files of problems.

Other packages import from these modules:

- `catalogue`: `family_and_params`
- `composition`: `Composition`
- `family`: `ProblemError`, `Family`, `digest`
- `order`: `problems_of_step`
- `own_problems`: `read_own_problems`
- `prepare`: `prepare`
- `problem_files`: `write_problems`, `read_problems`, `read_lines`, `load_split`, `pool_digest`
- `splits`: `generate_splits`, `Splits`
"""
