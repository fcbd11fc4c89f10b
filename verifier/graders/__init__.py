"""Verdicts of rollouts: policies, the grader, and workers for algebra.

Other packages import from these modules:

- `grade`: `grade`, `grade_answer`
- `policy`: `GraderName`, `Require`, `GradePolicy`
- `workers`: `Reply`, `read_line`, `shared_pool`
"""
