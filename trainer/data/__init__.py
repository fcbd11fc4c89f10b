"""Training data from recipes: problems for RL and conversations for SFT. No torch.

Other packages import from these modules:

- `decontamination`: `Entry`, `read_entries`, `overlaps`
- `dry_run`: `lines_of`
- `recipe_job`: `Order`, `build`
- `solve_rates`: `SolveRate`, `histogram`
- `sources`: `place_of`
"""
