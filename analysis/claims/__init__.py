"""Claims of the paper and the press, measured on a run and judged.

Other packages import from these modules:

- `claims`: `Verdict`, `read_claims`, `about_arms`, `ClaimVerdict`, `judge`
- `claims_files`: `write_claims`
- `effects`: `measure_run`
- `headline`: `difference_rows`, `control_rows`
- `multiplicity`: `holm`
"""
