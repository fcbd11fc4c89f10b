"""Answers of a response: where they are in the text, how they are read, and when two are equal.

Other packages import from these modules:

- `arithmetic`: `Undefined`, `value_of`, `is_real`, `as_real`
- `compare`: `Outcome`, `Comparison`, `compare`, `compare_integers`, `integer_literal`
- `extract`: `Extraction`, `extract`, `extract_letter`, `without_end_marks`, `balanced`
"""
