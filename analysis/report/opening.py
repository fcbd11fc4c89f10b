"""`opening`: the result of a run in a few sentences, written from its numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.claims.claims import ClaimVerdict, Verdict

AGREE = {Verdict.SUPPORTED, Verdict.SAME_DIRECTION}
AGAINST = {Verdict.CONTRADICTED, Verdict.OPPOSITE}


def opening(differences: Sequence[Mapping[str, Any]], claims: Sequence[ClaimVerdict]) -> list[str]:
    """Sentences on the gain of RL, on where it rises or falls, and on the claims.

    Args:
        differences: rows of `analysis.claims.headline.difference_rows`.
        claims: all verdicts.

    >>> row = {"label": "new numbers", "benchmark": "procedural-numbers", "low": 0.5, "high": 0.6}
    >>> pooled = {"label": "all", "benchmark": "procedural", "value_a": 0.24, "value_b": 0.64, "value": 0.4,
    ...           "low": 0.37, "high": 0.42, "num_questions": 1200}
    >>> for line in opening([row, pooled], []):
    ...     print(line)
    RL 3 answers 64.0% of 1,200 test problems and SFT 24.0%: +40.0 points [+37.0, +42.0], for this one run.
    It rises on new numbers.
    """
    lines = []
    pooled = next((row for row in differences if row["benchmark"] == "procedural"), None)
    if pooled is not None:
        lines.append(
            f"RL 3 answers {100 * pooled['value_b']:.1f}% of {pooled['num_questions']:,} test problems and SFT "
            f"{100 * pooled['value_a']:.1f}%: {100 * pooled['value']:+.1f} points [{100 * pooled['low']:+.1f}, "
            f"{100 * pooled['high']:+.1f}], for this one run."
        )
    rings = [row for row in differences if row["benchmark"] != "procedural"]
    if rings:
        lines.append(_rings(rings))
    return lines + _verdicts(claims)


def _rings(rings: Sequence[Mapping[str, Any]]) -> str:
    rises = [row["label"] for row in rings if row["low"] > 0]
    falls = [row["label"] for row in rings if row["high"] < 0]
    open_ = [row["label"] for row in rings if row["low"] <= 0 <= row["high"]]
    parts = [
        f"{verb} {_joined(labels)}"
        for verb, labels in (
            ("rises on", rises),
            ("falls on", falls),
            ("is not distinguished from SFT on", open_),
        )
        if labels
    ]
    return f"It {_joined(parts)}."


def _verdicts(claims: Sequence[ClaimVerdict]) -> list[str]:
    measured = [c for c in claims if c.value is not None and c.evidence != "arithmetic"]
    training = [c for c in measured if c.unit == "checkpoint"]
    this_run = [c for c in measured if c.unit != "checkpoint"]
    lines = []
    for rows, what in ((training, "claims about training"), (this_run, "claims about this run")):
        if rows:
            along, against = (sum(c.verdict in words for c in rows) for words in (AGREE, AGAINST))
            lines.append(
                f"Of {len(rows)} {what}, {along} go the published way, {against} the other way, and "
                f"{len(rows) - along - against} stay open."
            )
    exact = Counter(c.verdict for c in claims if c.evidence == "arithmetic" and c.unit == "none")
    if exact[Verdict.AGREES] + exact[Verdict.DISAGREES]:
        lines.append(
            f"Of {exact[Verdict.AGREES] + exact[Verdict.DISAGREES]} checks of the paper's own arithmetic, "
            f"{exact[Verdict.DISAGREES]} do not agree."
        )
    return lines


def _joined(parts: Sequence[str]) -> str:
    """A list in words.

    >>> _joined(["a", "b", "c"])
    'a, b and c'
    """
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
