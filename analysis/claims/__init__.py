"""Claims of the paper and the press, measured on a run and judged.

Other packages import from these modules:

- `claims`: `Verdict`, `about_arms`, `ClaimVerdict`, `judge`
- `claims_files`: `write_claims`
- `effects`: `measured_on`, `results_of`
- `endpoints`: `Claim`, `read_claims`
- `headline`: `difference_rows`, `control_rows`
- `invented`: `lacking`, `reached`
- `multiplicity`: `holm`
- `units`: `called`, `shown`
"""
