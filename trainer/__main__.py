"""Entry point of `python -m trainer`."""

from records.job_client import hand_over

COMMANDS = ("base", "sft", "rl", "filter-hard", "score")
"""Those that use what `trainer.warm` imports."""


def main() -> None:
    """Run the command line here, or in the job server of the run."""
    hand_over("trainer", commands=COMMANDS)
    from records.garbage import collect_rarely
    from records.usage import record_usage
    from trainer.cli import app

    collect_rarely()
    record_usage()
    app(prog_name="python -m trainer")


main()
