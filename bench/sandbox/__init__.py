"""Measures of `python -m sandbox bench`, one module for each question."""
