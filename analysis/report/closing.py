"""`closing_lines`: the last lines of a run: the report, the time of each phase, the scores."""

from __future__ import annotations

from analysis.report.record import ReportRecord
from records.run_folder import PAGE, REPORT, RunFolder
from records.stored import read_record


def closing_lines(run: RunFolder) -> list[str]:
    """Return lines to print after a successful run; empty when the run made no report."""
    path = run.report / REPORT
    if not path.is_file():
        return []
    report = read_record(ReportRecord, path, "run python -m analysis report again")
    lines = [f"report: {run.report / PAGE}"]
    lines += [f"  {phase:<24} {seconds:8.1f} s" for phase, seconds in report.phases_s.items()]
    if report.wall_s is not None:
        lines.append(f"  {'whole call':<24} {report.wall_s:8.1f} s")
    lines.append(f"CPU-seconds by job: python -m analysis waterfall --run {run.root}")
    return lines
