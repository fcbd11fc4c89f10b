"""`identity_rows`: factors that two evaluations must share to be the same measurement, and factors that may differ."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis.inputs.evaluation import CheckedEvaluation
from analysis.inputs.runs import Run
from analysis.inputs.sample_table import KEY
from records.digest import digest

ABSENT = "not recorded"
BLOCKING_KEYS = frozenset(
    {
        "eval.top_p", "eval.max_prompt", "eval.max_response", "eval.max_turns",
        "rollout.system", "rollout.tool.name", "rollout.tool.state", "rollout.tool.response_chars",
        "sandbox.cpu_s", "sandbox.wall_s", "sandbox.memory_mib", "sandbox.output_bytes", "sandbox.preload",
    }
)  # fmt: skip
"""Settings that make two evaluations different measurements: prompt, tool and its limits, budgets, sampling."""
TEMPLATE, TOKENIZER = "chat_template.jinja", "tokenizer.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Factor:
    """One row of the identity table."""

    what: str
    a: Any
    b: Any
    blocks: bool
    """A difference makes the two incomparable."""

    @property
    def same(self) -> bool:
        return self.a == self.b

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"same": self.same}


def identity_rows(a: Run, b: Run, left: CheckedEvaluation, right: CheckedEvaluation) -> list[Factor]:
    """Return every factor: those that differ and block, then those that differ, then the equal ones."""
    factors = [
        Factor(
            what="data digest",
            a=_known(a.manifest_digest(a.folder.data)),
            b=_known(b.manifest_digest(b.folder.data)),
            blocks=True,
        ),
        _of_summary("grading policies", "policies", left, right, blocks=True),
        _of_summary("engine", "engine", left, right),
        _of_summary("served model", "served_model", left, right),
        _of_summary("variant", "variant", left, right),
        _of_summary("checkpoint digest", "checkpoint_digest", left, right),
        *_settings(left, right),
        *_file_factors(a, b, left, right),
        *_plans(left, right),
        *_benchmarks(left, right),
        Factor(what="preset", a=a.preset, b=b.preset, blocks=False),
        *_configs(a, b),
    ]  # fmt: skip
    return sorted(factors, key=lambda row: (row.same, not row.blocks))


def prompt_factors(
    a: Run, b: Run, left: pd.DataFrame, right: pd.DataFrame, benchmarks: Iterable[str]
) -> list[Factor]:
    """Compare the prompt's tokens of each benchmark. A difference blocks unless another tokenizer explains it.

    Args:
        a: one run.
        b: the other.
        left: samples of a.
        right: samples of b.
        benchmarks: names of the benchmarks.
    """
    tokenizers = [_checkpoint_file(run, samples, TOKENIZER) for run, samples in ((a, left), (b, right))]
    explained = tokenizers[0] != tokenizers[1] and None not in tokenizers
    rows = []
    for name in benchmarks:
        both = [side[side["benchmark"] == name][[*KEY, "prompt_hash"]] for side in (left, right)]
        words = {"benchmark": object, "problem": object, "control": object}
        shared = both[0].astype(words).merge(both[1].astype(words), on=KEY)
        if len(shared):
            hashes = [_digest_of(shared[f"prompt_hash_{side}"].to_numpy()) for side in ("x", "y")]
            rows.append(Factor(what=f"prompts of {name}", a=hashes[0], b=hashes[1], blocks=not explained))
    return rows


def reasons(rows: Sequence[Factor]) -> list[str]:
    """Return one phrase per factor that blocks.

    >>> reasons([Factor(what="rollout.system", a="full", b="brief", blocks=True)])
    ['rollout.system differs (full against brief)']
    """
    return [
        f"{row.what} differs ({short(row.a)} against {short(row.b)})"
        for row in rows
        if row.blocks and not row.same
    ]


def short(value: Any) -> str:
    """Format a value as a cell; digests and long values are cut."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return text if len(text) <= 40 else f"{text[:12]}..."


def leaves(value: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """Return the leaves of nested JSON as (dotted key, value).

    >>> leaves({"a": {"b": 1}, "c": [2]})
    [('a.b', 1), ('c', [2])]
    """
    if not isinstance(value, dict):
        return [(prefix, value)]
    return [
        leaf for key in sorted(value) for leaf in leaves(value[key], f"{prefix}.{key}" if prefix else key)
    ]


def _known(value: Any) -> Any:
    return ABSENT if value is None else value


def _of_summary(
    what: str, key: str, left: CheckedEvaluation, right: CheckedEvaluation, *, blocks: bool = False
) -> Factor:
    values = [getattr(side.summary, key) for side in (left, right)]
    if any(isinstance(value, dict) for value in values):
        values = [None if value is None else digest(value) for value in values]
    return Factor(what=what, a=_known(values[0]), b=_known(values[1]), blocks=blocks)


def _settings(left: CheckedEvaluation, right: CheckedEvaluation) -> list[Factor]:
    """Return the leaves of the sections that the samples were made with."""
    sides = [
        dict(leaves({name: part for name, part in asdict(side.summary.settings).items() if name != "plans"}))
        for side in (left, right)
    ]
    return [
        Factor(what=key, a=_of(sides[0], key), b=_of(sides[1], key), blocks=key in BLOCKING_KEYS)
        for key in sorted({*sides[0], *sides[1], *BLOCKING_KEYS})
    ]


def _configs(a: Run, b: Run) -> list[Factor]:
    """Return differences in the configuration of the whole runs: training may differ, the evaluation may not."""
    sides = [dict(leaves(run.facts.get("config", {}))) for run in (a, b)]
    return [
        Factor(
            what=f"{key} (run.json)", a=_of(sides[0], key), b=_of(sides[1], key), blocks=key in BLOCKING_KEYS
        )
        for key in sorted({*sides[0], *sides[1]})
        if sides[0].get(key) != sides[1].get(key) and not key.startswith("runtime.") and all(sides)
    ]


def _of(side: Mapping[str, Any], key: str) -> Any:
    return side.get(key, ABSENT)


def _file_factors(a: Run, b: Run, left: CheckedEvaluation, right: CheckedEvaluation) -> list[Factor]:
    """Return chat template (blocks) and tokenizer of the evaluated checkpoints."""
    sides = ((a, left.samples), (b, right.samples))
    return [
        Factor(
            what=what,
            a=_known(_checkpoint_file(*sides[0], name)),
            b=_known(_checkpoint_file(*sides[1], name)),
            blocks=name == TEMPLATE,
        )
        for what, name in (("chat template", TEMPLATE), ("tokenizer", TOKENIZER))
    ]


def _checkpoint_file(run: Run, samples: pd.DataFrame, name: str) -> str | None:
    manifest = run.manifest(str(samples["checkpoint"].iloc[0]))
    return None if manifest is None else manifest.files.get(name)


def _plans(left: CheckedEvaluation, right: CheckedEvaluation) -> list[Factor]:
    plans = [digest(side.summary.settings.plans) for side in (left, right)]
    return [Factor(what="plans", a=plans[0], b=plans[1], blocks=False)]


def _benchmarks(left: CheckedEvaluation, right: CheckedEvaluation) -> list[Factor]:
    """Return the digest of the questions and golds of each benchmark that both summaries record."""
    tables = [side.summary.benchmarks for side in (left, right)]
    return [
        Factor(
            what=f"questions and golds of {name}",
            a=_of(tables[0], name),
            b=_of(tables[1], name),
            blocks=all(name in table for table in tables),
        )
        for name in sorted({*tables[0], *tables[1]})
    ]


def _digest_of(values: np.ndarray) -> str:
    return digest([int(value) for value in values])
