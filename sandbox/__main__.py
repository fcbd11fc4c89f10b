"""`python -m sandbox COMMAND`."""

from sandbox.cli import app

app(prog_name="python -m sandbox")
