"""`python -m sandbox COMMAND`."""

from records.usage import record_usage
from sandbox.cli import app

record_usage()
app(prog_name="python -m sandbox")
