"""Entry point of `python -m analysis`."""

from records.job_client import hand_over

COMMANDS = ("entropy", "claims", "tables", "figures", "report", "ablations", "verify", "gate")
"""Commands that use the imports of `analysis.warm`."""


def main() -> None:
    """Run the command line in this process, or in the job server of the run."""
    hand_over("analysis", commands=COMMANDS)
    from analysis.cli import app
    from records.garbage import collect_rarely
    from records.usage import record_usage

    collect_rarely()
    record_usage()
    app(prog_name="python -m analysis")


main()
