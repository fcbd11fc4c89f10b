"""Entry point of `python -m analysis`."""

from analysis.cli import app
from records.garbage import collect_rarely

collect_rarely()
app(prog_name="python -m analysis")
