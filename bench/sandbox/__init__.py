"""What `python -m sandbox bench` measures, one module a question."""
