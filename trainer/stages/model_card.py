"""`model_card`: README.md of an exported checkpoint, with the numbers of its own run and no others."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from records.errors import ConfigError
from records.evaluation import SUMMARY, EvaluationSummary, Score
from records.files import read_text
from records.manifest import Manifest

_FRONT = "---\nlibrary_name: transformers\npipeline_tag: text-generation\ntags: [rstar2-suite]\n---\n"


def model_card(checkpoint: Path, manifest: Manifest, *, dtype: str) -> str:
    """The card's text.

    Args:
        checkpoint: published folder of a run; scores and claims lie beside it in results/<run>.
        manifest: of that folder.
        dtype: of the exported weights.

    Raises:
        ConfigError: a summary of the run is broken.
    """
    run = checkpoint.resolve().parent.parent
    stage = checkpoint.name
    parts = [
        _FRONT,
        f"# {run.name}-{stage}\n",
        f"Checkpoint `{stage}` of the run `{run.name}` of the rStar2 suite, a reproduction of arXiv 2508.20722, "
        f"exported in {dtype}. Every number here comes from that run's own files.\n",
        *_training(manifest),
        *_scores(run, manifest),
        *_claims(run),
        _SERVE,
    ]
    return "\n".join(parts)


def _training(manifest: Manifest) -> list[str]:
    rows = [f"| {name} | {value} |" for name, value in sorted(manifest.facts.items()) if _is_plain(value)]
    parent = [f"| parent (digest) | {manifest.parent[:12]} |"] if manifest.parent else []
    return ["## Training\n", "| fact | value |", "|---|---|", *rows, *parent, ""]


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float | str) and len(str(value)) < 60


def _scores(run: Path, manifest: Manifest) -> list[str]:
    """Scores of every evaluation of this very checkpoint, by its digest."""
    rows = []
    for folder in sorted((run / "eval").glob("*")):
        if (folder / SUMMARY).is_file():
            summary = EvaluationSummary.load(folder)
            if summary.checkpoint_digest == manifest.digest:
                rows += [_score_line(score) for score in summary.scores if _is_shown(score)]
    if not rows:
        return ["## Scores\n", "The run holds no evaluation of this checkpoint.\n"]
    head = [
        "| benchmark | metric | control | T | value | 95% interval | questions |",
        "|---|---|---|---|---|---|---|",
    ]
    return ["## Scores\n", "Strict grader.\n", *head, *rows, ""]


def _is_shown(score: Score) -> bool:
    return score.grader == "strict" and score.metric.startswith(("avg@", "pass@", "chance"))


def _score_line(score: Score) -> str:
    interval = f"{score.low:.3f} to {score.high:.3f}"
    return (
        f"| {score.benchmark} | {score.metric} | {score.control} | {score.temperature:g} | {score.value:.3f} | "
        f"{interval} | {score.num_questions} |"
    )


def _claims(run: Path) -> list[str]:
    path = run / "claims" / "claims.json"
    if not path.is_file():
        return ["## Claims of the paper\n", "The run judged no claims.\n"]
    try:
        verdicts = [str(row["verdict"]) for row in json.loads(read_text(path))]
    except (ValueError, TypeError, KeyError):
        raise ConfigError(f"{path}: is not a list of claims; run `python -m analysis claims` again") from None
    counts = Counter(verdicts)
    return [
        "## Claims of the paper\n",
        "Verdicts of this run on the paper's claims, at this run's scale: "
        + ", ".join(f"{count} {verdict}" for verdict, count in sorted(counts.items()))
        + ".\n",
    ]


_SERVE = """## Use

The chat template renders the conversation of training. A call is JSON in `<tool_call>` tags, which the `hermes` parser
of vLLM reads.

```bash
vllm serve FOLDER --enable-auto-tool-choice --tool-call-parser hermes
```

Run the code of a call only in a sandbox.
"""
