"""Answers of a response: extraction, reading and comparison.

Other packages import from these modules:

- `arithmetic`: `Undefined`, `value_of`, `is_real`, `as_real`
- `compare`: `Outcome`, `Comparison`, `compare`, `compare_integers`, `integer_literal`
- `extract`: `Extraction`, `extract`, `extract_letter`, `without_end_marks`, `balanced`
"""
