"""Grades answers and declares benchmarks. Heavy imports happen on first use.

Other packages import from these modules:

- `availability`: `listing`
- `declaration`: `WrongData`, `jsonl_rows`, `hub_answers`
- `turn`: `CallUnread`, `CallText`, `read_turn`, `tags`
"""
