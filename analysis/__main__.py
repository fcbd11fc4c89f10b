"""Entry point of `python -m analysis`."""

from analysis.cli import app

app(prog_name="python -m analysis")
