"""One line over all jobs of a run, from Snakemake's events; errors stay on the screen."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from records.run_progress import LOGGER, STREAM_HANDLER, RunProgress, fold_lines, last_line


def send(event: str | None, text: str = "", level: int = logging.INFO, **fields: object) -> None:
    logging.getLogger(LOGGER).log(level, text, extra={"event": event, **fields})


def begin(job: int, rule: str, log: Path, **wildcards: str) -> None:
    send("job_info", jobid=job, rule_name=rule, wildcards=wildcards, log=[str(log)])


@pytest.fixture
def screen() -> Iterator[io.StringIO]:
    """Snakemake's logger with its handler of the screen."""
    stream, logger = io.StringIO(), logging.getLogger(LOGGER)
    handler = logging.StreamHandler(stream)
    handler.name = STREAM_HANDLER
    kept, level = list(logger.handlers), logger.level
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(logging.INFO)
    yield stream
    for each in logger.handlers:
        each.close()
    logger.handlers, logger.propagate = kept, True
    logger.setLevel(level)


def test_events_of_jobs_are_folded_away_and_nothing_else(screen: io.StringIO) -> None:
    fold_lines()
    send("job_info", "rule sft", jobid=1, rule_name="sft")
    send(None, "Select jobs to execute...")
    send(None, "Nothing to be done")
    send(None, "a warning", logging.WARNING)
    send("job_error", "Error in rule sft", logging.ERROR)
    assert screen.getvalue() == "Nothing to be done\na warning\nError in rule sft\n"


def test_the_line_counts_jobs_estimates_the_rest_and_shows_the_running_jobs(
    screen: io.StringIO, tmp_path: Path
) -> None:
    now, out = [0.0], io.StringIO()
    results = {"rl1": "accuracy 0.700"}
    progress = RunProgress(
        ["corpus", "rl1", "arm", "arm"],
        lambda rule, name: results.get(rule, ""),
        stream=out,
        clock=lambda: now[0],
    )
    progress.start()
    assert progress.line() == "[0:00] 0 of 4 jobs"
    (tmp_path / "arm.log").write_text("rl1 1/16\nrl1 3/16  0.5/s   acc 0.4\n", encoding="utf-8")
    begin(1, "corpus", tmp_path / "corpus.log")
    begin(2, "arm", tmp_path / "arm.log", arm="grpo_g", seed="1")
    now[0] = 30.0
    send("job_finished", job_id=1)
    # 50 + 30 of 50 + 40 + 60 + 60 expected seconds are done after 30: 130 are left at 30/80.
    assert progress.line() == "[0:30] 1 of 4 jobs, about 0:49 left | arm-grpo_g-1: rl1 3/16 0.5/s acc 0.4"
    begin(3, "rl1", tmp_path / "rl1.log")
    now[0] = 60.0
    send("job_finished", job_id=3)
    assert out.getvalue() == "[1:00] rl1: accuracy 0.700\n"
    send("job_finished", job_id=2)
    assert progress.line().startswith("[1:00] 3 of 4 jobs")


def test_a_target_without_a_log_counts_as_no_job(screen: io.StringIO) -> None:
    progress = RunProgress(["sft"], lambda rule, name: "", stream=io.StringIO())
    progress.start()
    send("job_info", jobid=0, rule_name="reproduce", wildcards=None, log=[])
    send("job_finished", job_id=0)
    assert " 0 of 1 jobs" in progress.line()


def test_the_last_line_of_a_log_is_found_in_a_long_and_in_no_file(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert last_line(log) == last_line(None) == ""
    log.write_bytes(b"x" * 5000 + b'\nlast  one \n\n{"facts": 1}\n')
    assert last_line(log) == "last one"
