"""Entry point of `python -m analysis`."""

from analysis.cli import app
from records.garbage import collect_rarely
from records.usage import record_usage

collect_rarely()
record_usage()
app(prog_name="python -m analysis")
