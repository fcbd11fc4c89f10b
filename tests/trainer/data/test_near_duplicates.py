"""Near-duplicates: other words of one problem are found, another number is another problem."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trainer.data.curation import conflicts, repeats
from trainer.data.near_duplicates import buckets_NB, near_duplicates, shingles, similarity

BASE = (
    "A gardener plants tulips in seven rows so that each row holds three more tulips than the row before it and the "
    "last row holds twenty five of them. How many tulips are there in the whole garden, the first row included?"
)


def twins(texts: list[str], answers: list[int], least: float = 0.9) -> dict[int, int]:
    bands = buckets_NB(texts)
    rows = np.arange(len(texts), dtype=np.int64)
    return near_duplicates(rows, np.array(answers), lambda band: bands[:, band], texts.__getitem__, least)


def test_a_word_more_is_the_same_problem_and_another_answer_is_not() -> None:
    texts = [BASE, BASE + " Please.", "Something else entirely, with words of its own.", BASE + " Thanks."]
    assert twins(texts, [112, 112, 112, 112]) == {1: 0, 3: 0}
    assert twins(texts, [112, 113, 112, 114]) == {}
    assert twins(texts, [112, 112, 112, 112], 1.0) == {}


@given(st.lists(st.sampled_from("abcdefgh"), min_size=8, max_size=40), st.integers(0, 39))
def test_only_pairs_over_the_threshold_are_one_problem(words: list[str], at: int) -> None:
    text = " ".join(words)
    other = " ".join([*words[: at % len(words)], "zz", *words[at % len(words) :]])
    found = twins([text, other], [1, 1], 0.9)
    assert not found or similarity(shingles(text), shingles(other)) >= 0.9


def test_signatures_are_the_same_in_every_process() -> None:
    assert buckets_NB([BASE])[0, :2].tolist() == EXPECTED


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 2)), max_size=30))
def test_conflicts_and_repeats_equal_the_slow_way(pairs: list[tuple[int, int]]) -> None:
    keys, answers = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    rows = np.arange(len(pairs), dtype=np.int64)
    slow = [at for at, (key, _) in enumerate(pairs) if len({a for k, a in pairs if k == key}) > 1]
    assert conflicts(rows, keys, answers).tolist() == slow
    assert repeats(rows, keys).tolist() == [
        at for at, (key, _) in enumerate(pairs) if key in {k for k, _ in pairs[:at]}
    ]


EXPECTED = [7344905628314378172, 2320259541395758484]
