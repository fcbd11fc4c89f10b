"""Contamination: copies are found, boilerplate is not, the matching span is shown."""

import json
from pathlib import Path

import pytest

from trainer.data.decontamination import Entry, overlaps

LONG = (
    "A gardener plants tulips in seven rows so that each row holds three more tulips than the row before it and the "
    "last row holds twenty five of them"
)
BOILERPLATE = "can be written as m over n where m and n are relatively prime positive integers find m plus n"


def test_a_copy_is_found_with_any_spacing_and_case() -> None:
    found = overlaps([Entry(id="t", text="  " + LONG.upper() + " ?")], [Entry(id="b", text=LONG)])
    assert [(row.benchmark_id, row.train_id, row.exact) for row in found] == [("b", "t", True)]
    assert found[0].span_words == len(LONG.split())


def test_another_operator_makes_another_problem() -> None:
    train = [Entry(id="t", text="Solve z^4 + z^2 - 9 = 0 for z")]
    assert not any(
        row.exact for row in overlaps(train, [Entry(id="b", text="Solve z^4 - z^2 - 9 = 0 for z")])
    )


def test_a_longer_training_text_around_a_copy_is_found_with_its_span() -> None:
    found = overlaps([Entry(id="t", text=f"Hint first. {LONG}. How many?")], [Entry(id="b", text=LONG)])
    assert [(row.exact, row.span) for row in found] == [(False, LONG.lower())]


def test_boilerplate_alone_flags_nothing() -> None:
    stems = ["The area of a tilted square", "The chance that two dice agree", "The height of a certain tower"]
    benchmark = [Entry(id=f"b{at}", text=f"{stem} {BOILERPLATE}") for at, stem in enumerate(stems)]
    train = [Entry(id=f"t{at}", text=f"Some other number {at} {BOILERPLATE}") for at in range(3)]
    assert overlaps(train, benchmark) == [] or all(row.num_rare == 0 for row in overlaps(train, benchmark))


def test_a_repeated_set_does_not_turn_a_copy_into_boilerplate() -> None:
    train = [Entry(id=f"t{at}", text=f"{LONG} please") for at in range(100)]
    assert overlaps(train, [Entry(id="b", text=LONG)])[0].num_rare > 0


def test_the_answer_is_compared_too() -> None:
    train = [Entry(id="t", text=LONG, answer="0.5")]
    assert overlaps(train, [Entry(id="b", text=LONG, answer="\\frac12")])[0].same_answer
    assert not overlaps(train, [Entry(id="b", text=LONG, answer="7")])[0].same_answer


@pytest.mark.slow
def test_known_contamination_of_a_public_training_set(shared_dir: Path) -> None:
    lines = (shared_dir / "data" / "dapo_math_17k.jsonl").read_text().splitlines()
    train = [Entry(id=row["id"], text=row["problem"], answer=row["answer"]) for row in map(json.loads, lines)]
    for name, exact in (("aime24", 0), ("aime25", 0), ("math500", 7)):
        rows = [json.loads(line) for line in (shared_dir / "data" / f"{name}.jsonl").read_text().splitlines()]
        found = overlaps(
            train, [Entry(id=row["id"], text=row["problem"], answer=row["answer"]) for row in rows]
        )
        assert sum(row.exact for row in found) == exact
        assert all(row.same_answer for row in found if row.exact)
        assert name == "math500" or not found
