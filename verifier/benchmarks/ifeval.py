"""IFEval: 541 prompts with 834 checkable instructions of 25 types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from verifier.declaration import (
    Benchmark,
    HubSource,
    KnownIssue,
    PromptKind,
    Sampling,
    Scoring,
)

if TYPE_CHECKING:
    from records.problem import Problem
    from records.trajectory import Rollout
    from records.verdict import Verdict


def _read(row: Mapping[str, Any], index: int) -> Problem:
    from records.problem import Problem
    from records.problem_params import Instruction, Instructions

    del index
    ids, kwargs = list(row["instruction_id_list"]), list(row["kwargs"])
    if len(ids) != len(kwargs):
        raise ValueError(f"{len(ids)} instructions but {len(kwargs)} argument sets")
    asked = Instructions(
        items=tuple(
            Instruction(
                id=id, kwargs={name: value for name, value in sorted(args.items()) if value is not None}
            )
            for id, args in zip(ids, kwargs, strict=True)
        )
    )
    return Problem(id=f"ifeval-{row['key']}", prompt=row["prompt"], answer=asked.answer, params=asked)


def _grade(problem: Problem, rollout: Rollout) -> dict[str, Verdict]:
    from verifier.ifeval.checks import grade_instructions

    return grade_instructions(problem, rollout)


BENCHMARK = Benchmark(
    name="ifeval",
    title="IFEval",
    num_questions=541,
    version="Google's 541 prompts; keys 1122 and 1129 corrected",
    file="ifeval.jsonl",
    hub=HubSource(id="google/IFEval", revision="main", split="train"),
    how_to_get="put ifeval.jsonl (key, prompt, instruction_id_list, kwargs) into the data folder, or allow the hub; "
    "checks: pip install if-verifiable==0.1.2",
    read=_read,
    grade_with=_grade,
    prompt=PromptKind.NATIVE,
    scoring=Scoring.INSTRUCTIONS,
    sampling=Sampling(num_samples=1, temperature=0.0, max_tokens=30_720, max_turns=1),
    metric="prompt strict accuracy",
    digests=("81132db8ce44a3123cb5a7017b3276a0f4730067d0f7431b10d68b07a69ab570",),
    known_issues=(
        KnownIssue(
            problems=("ifeval-1122", "ifeval-1129"),
            what="they ask for a symbol that the reference replaces by a random letter; the suite counts the symbol",
        ),
        KnownIssue(problems=("ifeval-337",), what="asks for 400 words, checks 336"),
        KnownIssue(problems=("ifeval-2078",), what="contradicts itself"),
    ),
)
