"""Measures of `python -m sandbox bench`, one module per question."""
