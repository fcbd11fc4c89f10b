"""`refuse_to_replace` and `finished`: a command replaces another result only with --overwrite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from records.errors import ConfigError

if TYPE_CHECKING:
    from records.evaluation import EvaluationSummary, Settings


def refuse_to_replace(path: Path, *, overwrite: bool) -> None:
    """Raise ConfigError when `path` exists and the user did not ask to replace it."""
    if path.is_dir():
        raise ConfigError(f"--out {path}: is a folder; name a file")
    if path.exists() and not overwrite:
        raise ConfigError(
            f"--out {path}: exists already; name another file, or pass --overwrite to replace it"
        )


def finished(out: Path, fingerprint: str, asked: Settings, *, overwrite: bool) -> EvaluationSummary | None:
    """Return the summary of an already finished evaluation; None when there is work to do.

    Args:
        out: folder of the evaluation.
        fingerprint: digest of everything that decides its samples.
        asked: settings of this command; its intervals must equal those of the summary, but decide no sample.
        overwrite: replace the folder, whatever it holds.

    Raises:
        ConfigError: `out` holds another finished evaluation, other intervals, or files that do not belong together.
    """
    from records.evaluation import EvaluationSummary
    from records.files import sha256_of
    from records.run_folder import SAMPLES, SUMMARY

    if overwrite or not (out / SUMMARY).exists():
        return None
    remedy = "name another --out, or pass --overwrite to replace it"
    try:
        summary = EvaluationSummary.load(out)
    except ConfigError:
        raise ConfigError(f"{out / SUMMARY}: is no summary that can be read; {remedy}") from None
    if summary.fingerprint != fingerprint:
        held, named = (_named(plans) for plans in (summary.settings.plans, asked.plans))
        other = "" if held != named else " with other settings, data or weights"
        raise ConfigError(
            f"{out}: holds a finished evaluation ({held}){other}, and this one is {named}; {remedy}"
        )
    if summary.settings.intervals != asked.intervals:
        raise ConfigError(
            f"{out}: its intervals were made with {_intervals(summary.settings)}, and this command has "
            f"{_intervals(asked)}; {remedy}"
        )
    samples = out / SAMPLES
    if not samples.is_file() or sha256_of(samples) != summary.samples_sha256:
        raise ConfigError(f"{samples}: is not the file that {SUMMARY} was made from; {remedy}")
    return summary


def _intervals(settings: Settings) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in sorted(settings.intervals.items())) or "none"


def _named(plans: Iterable[Mapping[str, Any]]) -> str:
    """Describe plans in a few words.

    >>> _named([{"benchmarks": ["aime24", "aime25"], "k": 4, "temperature": 1.0}])
    'aime24, aime25: k 4, T 1'
    """
    words = [
        f"{', '.join(plan.get('benchmarks', []))}: k {plan.get('k')}, T {plan.get('temperature', 0):g}"
        for plan in plans
    ]
    return "; ".join(words) or "of unknown settings"
