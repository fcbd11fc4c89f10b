"""BFCL v3: 4,441 entries in 17 categories, from the last commit before v4."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verifier.bfcl.calls import CATEGORIES, Kind, kind_of
from verifier.bfcl.entry import entry_of
from verifier.declaration import (
    Benchmark,
    KnownIssue,
    PromptKind,
    Sampling,
    Scoring,
    WrongData,
    jsonl_rows,
)

if TYPE_CHECKING:
    from records.problem import Problem
    from records.trajectory import Rollout
    from records.verdict import Verdict

_DOCS = {
    "GorillaFileSystem": "gorilla_file_system",
    "MathAPI": "math_api",
    "MessageAPI": "message_api",
    "TwitterAPI": "posting_api",
    "TicketAPI": "ticket_api",
    "TradingBot": "trading_bot",
    "TravelAPI": "travel_booking",
    "VehicleControlAPI": "vehicle_control",
}


def _open_folder(folder: Path) -> Iterable[Mapping[str, Any]]:
    """Yield the entries of all categories, each with its gold and, for conversations, the functions of its services."""
    docs = {name: list(_rows(folder / "multi_turn_func_doc", file)) for name, file in _DOCS.items()}
    for category in CATEGORIES:
        yield from open_category(folder, category, docs)


def open_category(
    folder: Path, category: str, docs: Mapping[str, list[Mapping[str, Any]]]
) -> Iterable[Mapping[str, Any]]:
    """Yield one category, each entry with its gold; `docs`: the functions of each service, for conversations."""
    has_gold = kind_of(category) in (Kind.AST, Kind.MULTI_TURN)
    name = f"BFCL_v3_{category}"
    golds = (
        {row["id"]: row["ground_truth"] for row in _rows(folder / "possible_answer", name)}
        if has_gold
        else {}
    )
    for row in _rows(folder, name):
        if has_gold and row["id"] not in golds:
            raise WrongData(f"{folder}: entry {row['id']!r} has no gold")
        functions = row["function"] if "function" in row else _functions(row["involved_classes"], docs)
        yield {
            **row,
            "category": category,
            "function": functions,
            "ground_truth": golds.get(row["id"], []),
        }


def _functions(
    services: Iterable[str], docs: Mapping[str, list[Mapping[str, Any]]]
) -> list[Mapping[str, Any]]:
    return [doc for service in services for doc in docs[service]]


def _rows(folder: Path, name: str) -> Iterable[Mapping[str, Any]]:
    """Read the file under either of its two public names."""
    for ending in (".jsonl", ".json"):
        if (folder / f"{name}{ending}").exists():
            return jsonl_rows(folder / f"{name}{ending}")
    raise WrongData(f"{folder}: {name}.json is missing")


def _read(row: Mapping[str, Any], index: int) -> Problem:
    from records.problem import Problem
    from records.problem_params import FunctionEntry

    del index
    asked = [message["content"] for turn in row["question"] for message in turn]
    entry = FunctionEntry.of(row)
    return Problem(
        id=row["id"],
        prompt="\n\n".join(asked),
        answer=entry.answer,
        family=entry.category,
        params=entry,
    )


def grade_single_turn(problem: Problem, rollout: Rollout) -> dict[str, Verdict]:
    """Grade a single-turn entry; `verifier.bfcl.episodes.grade_conversation` grades conversations."""
    from records.verdict import Verdict, VerdictKind
    from verifier.bfcl.calls import Unjudged, check
    from verifier.graders.policy import MAX_RESPONSE_CHARS

    if not rollout.stop.is_models:
        return {"strict": Verdict(id=problem.id, verdict=VerdictKind.INFRA_FAILED, rule=rollout.stop.value)}
    if kind_of(problem.family) is Kind.MULTI_TURN:
        raise ValueError(f"{problem.id} is a conversation: play and grade it with verifier.bfcl.episodes")
    if not rollout.turns:  # an empty response is right for some entries, an unasked question is not
        rule = rollout.detail or "nothing was sampled"
        return {"strict": Verdict(id=problem.id, verdict=VerdictKind.WRONG, rule=rule)}
    entry, text = entry_of(problem), rollout.turns[-1].text
    try:
        if len(text) > MAX_RESPONSE_CHARS:
            raise Unjudged(f"response longer than {MAX_RESPONSE_CHARS} characters")
        right, rule = check(entry.category, entry.functions, entry.gold, text)
    except Unjudged as error:
        return {"strict": Verdict(id=problem.id, verdict=VerdictKind.UNPARSED, rule=str(error))}
    kind = VerdictKind.CORRECT if right else VerdictKind.WRONG
    return {"strict": Verdict(id=problem.id, verdict=kind, rule=rule)}


BENCHMARK = Benchmark(
    name="bfcl_v3",
    title="BFCL v3",
    num_questions=4441,
    version="v3 of August 2025 (last commit before v4); checker of bfcl-eval 2026.3.23",
    file="bfcl_v3",
    how_to_get="put the v3 data of the gorilla repository at cd9429cc (bfcl_eval/data) into the data folder as "
    "bfcl_v3; checker: see docs/verifier.md",
    read=_read,
    open_file=_open_folder,
    grade_with=grade_single_turn,
    prompt=PromptKind.FUNCTIONS,
    scoring=Scoring.FUNCTION_CALLS,
    sampling=Sampling(num_samples=1, temperature=0.0, max_tokens=30_720, max_turns=20),
    metric="overall (v3 weights)",
    digests=("41201186ab50eeae58c6c4350c9da678fe182de73637b0c846b793f85dca0a5a",),
    known_issues=(
        KnownIssue(
            problems=("simple_363", "javascript_41"),
            what="the gold names a function or argument that the function list does not have",
        ),
        KnownIssue(
            problems=(
                "simple_17",
                "simple_200",
                "parallel_88",
                "parallel_multiple_26",
                "parallel_multiple_87",
                "parallel_multiple_119",
                "live_multiple_144-56-0",
                "live_multiple_507-149-4",
                "live_multiple_834-178-9",
                "live_multiple_862-181-3",
                "live_multiple_964-207-0",
            ),
            what="a required argument is listed as optional in the gold, or the gold names an unknown one",
        ),
        KnownIssue(
            problems=("live_simple_106-63-0", "live_simple_112-68-0"),
            what="the gold nests its values one level deeper than the published checker reads",
        ),
        KnownIssue(
            problems=("parallel_84", "parallel_158", "parallel_170"),
            what="published as defective: gorilla issues 771, 1133, 1256, 1267",
        ),
    ),
)
