"""Entry point of `python -m evaluation`."""

from records.job_client import hand_over

COMMANDS = ("run", "arm", "arm-of-main", "origin")
"""Those that use what `evaluation.warm` imports."""


def main() -> None:
    """Run the command line here, or in the job server of the run."""
    hand_over("evaluation", commands=COMMANDS)
    from evaluation.cli import app
    from records.garbage import collect_rarely
    from records.usage import record_usage

    collect_rarely()
    record_usage()
    app(prog_name="python -m evaluation")


main()
