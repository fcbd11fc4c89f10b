"""IFEval: instructions of a prompt, and the reference checks for them.

Other packages import from these modules:

- `checks`: `grade_instructions`, `followed`, `four_numbers`, `require_checks`
"""
