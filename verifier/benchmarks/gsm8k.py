"""GSM8K test: 1,319 grade-school word problems with integer answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verifier.declaration import Benchmark, HubSource, KnownIssue, Sampling


def _read(row: Mapping[str, Any], index: int) -> Any:
    from records.problem import Problem

    answer = str(row["answer"]).rsplit("####", 1)[-1].strip().replace(",", "")
    return Problem(id=str(row.get("id") or f"gsm8k-test-{index}"), prompt=row["question"], answer=answer)


BENCHMARK = Benchmark(
    name="gsm8k",
    title="GSM8K",
    num_questions=1319,
    version="test, original labels",
    file="gsm8k_test.jsonl",
    hub=HubSource(
        id="openai/gsm8k",
        revision="740312add88f781978c0658806c59bc2815b9866",
        split="test",
        configs=("main",),
    ),
    how_to_get="put gsm8k_test.jsonl (id, question, answer) into the data folder, or allow access to the hub",
    read=_read,
    sampling=Sampling(num_samples=1, temperature=0.6, max_tokens=30_720, max_turns=30),
    metric="avg@1",
    digests=("b1e0f64ad4d0d132b496a8e57a523dff6a27d139e11f4bb69efc26fa2eb6f802",),
    known_issues=(
        KnownIssue(
            problems=(), what="110 of the 1,319 labels are wrong or unclear: GSM8K-Platinum keeps 1,209"
        ),
    ),
)
