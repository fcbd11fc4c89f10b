"""Schedules and layouts: conservation, capacity, equal counts per rank, the shift, masks by position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.update.micro_batches import (
    MicroBatch,
    Schedule,
    Span,
    pack,
    packed_schedule,
    pad,
    padded_schedule,
    prompt_of,
    shared_schedule,
)
from trainer.update.training_rows import Row

lengths = st.lists(st.integers(1, 50), max_size=60)


def a_row(ids: list[int], sampled: list[int], advantage: float = 1.0, group: str = "g") -> Row:
    mask = [i in sampled for i in range(len(ids))]
    return Row(
        ids=ids,
        mask=mask,
        logprob=[-float(i) if on else 0.0 for i, on in enumerate(mask)],
        advantage=advantage,
        group=group,
    )


def rows_of(schedule: Schedule) -> list[int]:
    return sorted(row for rows in schedule.micro_batches for row in rows)


# --- schedules -------------------------------------------------------------------------------------------


@given(lengths, st.integers(50, 120), st.integers(1, 5))
def test_a_packed_schedule_holds_each_row_once_and_equally_many_per_rank(
    lengths_N: list[int], max_tokens: int, num_ranks: int
) -> None:
    """B34, B35, B42."""
    schedule = packed_schedule(lengths_N, max_tokens, num_ranks)
    assert rows_of(schedule) == list(range(len(lengths_N)))
    assert all(sum(lengths_N[r] for r in rows) <= max_tokens for rows in schedule.micro_batches)
    assert len(schedule.ranks) == num_ranks
    assert len({len(rank) for rank in schedule.ranks}) == 1
    assert schedule == packed_schedule(lengths_N, max_tokens, num_ranks)


@given(lengths, st.integers(50, 120), st.integers(1, 5), st.sampled_from([0.0, 0.1, 0.5]))
def test_padded_schedule_holds_each_row_once_within_cells_and_padding(
    lengths_N: list[int], max_tokens: int, num_ranks: int, max_padding_frac: float
) -> None:
    """A half may have more padding than the whole, but two halves never compute more cells."""

    def cells(rows: Sequence[int]) -> int:
        return max(lengths_N[r] for r in rows) * len(rows) if rows else 0

    whole = padded_schedule(lengths_N, max_tokens, max_padding_frac)
    for rows in whole.micro_batches:
        assert sum(lengths_N[r] for r in rows) >= (1 - max_padding_frac) * cells(rows) - 1e-9
    schedule = padded_schedule(lengths_N, max_tokens, max_padding_frac, num_ranks)
    assert rows_of(schedule) == list(range(len(lengths_N)))
    assert len({len(rank) for rank in schedule.ranks}) == 1
    assert max(map(cells, schedule.micro_batches), default=0) <= max_tokens
    assert sum(map(cells, schedule.micro_batches)) <= sum(map(cells, whole.micro_batches))


@given(lengths, st.integers(50, 120), st.integers(1, 4))
def test_packed_micro_batches_are_evenly_filled(
    lengths_N: list[int], max_tokens: int, num_ranks: int
) -> None:
    """Longest first to the lightest: fullest and emptiest differ by at most the longest row."""
    loads = [
        sum(lengths_N[r] for r in rows)
        for rank in packed_schedule(lengths_N, max_tokens, num_ranks).ranks
        for rows in rank
    ]
    assert max(loads, default=0) - min(loads, default=0) <= max(lengths_N, default=0)


def test_a_packed_schedule_of_exact_fit_uses_the_fewest_micro_batches() -> None:
    assert len(packed_schedule([10] * 20, 50).micro_batches) == 4
    assert len(packed_schedule([50] * 7, 50).micro_batches) == 7
    assert len(packed_schedule([10] * 20, 50, num_ranks=3).ranks[0]) == 2


def test_a_light_batch_pads_with_empty_micro_batches_not_with_missing_ones() -> None:
    assert packed_schedule([5, 5], 10, num_ranks=4).ranks == (((0,),), ((1,),), ((),), ((),))
    assert padded_schedule([5], 10, num_ranks=3).ranks == (((0,),), ((),), ((),))
    assert packed_schedule([], 10, num_ranks=2).ranks == ((), ())


def test_padded_schedule_halves_rectangles_so_that_every_rank_works() -> None:
    ranks = padded_schedule([8, 8, 8, 8], 32, 0.0, num_ranks=2).ranks
    assert ranks == (((0, 1),), ((2, 3),))


def test_ranks_get_even_loads() -> None:
    schedule = packed_schedule(list(range(1, 41)), 50, num_ranks=4)
    loads = [sum(r + 1 for rows in rank for r in rows) for rank in schedule.ranks]
    assert sum(loads) == 820
    assert max(loads) - min(loads) <= 40


@pytest.mark.parametrize("schedule_of", [packed_schedule, padded_schedule])
def test_rows_that_cannot_fit_are_refused_with_the_remedy(schedule_of) -> None:
    with pytest.raises(ValueError, match=r"row 1 has 11 tokens.*objective.micro_batch_tokens"):
        schedule_of([3, 11], 10)
    with pytest.raises(ValueError, match="row 0 has 0 tokens"):
        schedule_of([0], 10)
    with pytest.raises(ValueError, match="num_ranks"):
        schedule_of([3], 10, num_ranks=0)


def test_a_padding_share_without_meaning_is_refused() -> None:
    for share in (-0.1, 1.0):
        with pytest.raises(ValueError, match="max_padding_frac"):
            padded_schedule([3], 10, share)


# --- layouts ---------------------------------------------------------------------------------------------


def test_the_target_is_the_token_after_its_hidden_state() -> None:
    """B12 by hand: ids a b c d, sampled b and d; cell 0 predicts b, cell 2 predicts d."""
    batch = pack([a_row([100, 101, 102, 103], [1, 3])], [0])
    assert batch.source_S.tolist() == [0, 2]
    assert batch.target_S.tolist() == [101, 103]
    assert batch.behaviour_S.tolist() == [-1.0, -3.0]


def test_no_target_looks_across_a_row_boundary() -> None:
    """The last cell of a row predicts nothing; the first token of the next row is not a target."""
    rows = [a_row([1, 2, 3], [1, 2]), a_row([4, 5], [1]), a_row([6, 7, 8, 9], [2])]
    batch = pack(rows, [0, 1, 2])
    assert batch.cu_seqlens.tolist() == [0, 3, 5, 9]
    assert batch.ids.tolist() == [[1, 2, 3, 4, 5, 6, 7, 8, 9]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 0, 1, 0, 1, 2, 3]]
    assert batch.source_S.tolist() == [0, 1, 3, 6]
    assert batch.target_S.tolist() == [2, 3, 5, 8]
    assert batch.row_S.tolist() == [0, 0, 1, 2]
    assert batch.padding_frac == 0.0


def test_padding_is_on_the_right_and_marked_by_position() -> None:
    """B24, B26: the pad id may be the id of a real, sampled token."""
    rows = [a_row([1, 0], [1], advantage=-1.0), a_row([4, 5, 0, 0], [2, 3])]
    batch = pad(rows, [0, 1], pad_id=0)
    assert batch.ids.tolist() == [[1, 0, 0, 0], [4, 5, 0, 0]]
    assert batch.position_ids.tolist() == [[0, 1, 0, 0], [0, 1, 2, 3]]
    assert batch.source_S.tolist() == [0, 5, 6]
    assert batch.target_S.tolist() == [0, 0, 0]
    assert batch.advantage_S.tolist() == [-1.0, 1.0, 1.0]
    assert batch.padding_frac == 0.25
    assert pad(rows, [0, 1], multiple=8).ids.shape == (2, 8)


ragged_rows = st.lists(
    st.lists(st.booleans(), min_size=0, max_size=8).map(
        lambda sampled: a_row(
            list(range(10, 11 + len(sampled))), [i + 1 for i, on in enumerate(sampled) if on]
        )
    ),
    min_size=1,
    max_size=8,
)


def flat(batch: MicroBatch) -> list[tuple[int, int, int, float]]:
    ids = batch.ids.reshape(-1)
    return [
        (int(row), int(ids[source]), int(target), float(behaviour))
        for row, source, target, behaviour in zip(
            batch.row_S, batch.source_S, batch.target_S, batch.behaviour_S, strict=True
        )
    ]


@given(ragged_rows, st.integers(1, 16))
def test_packed_and_padded_layouts_hold_the_same_targets_as_a_slow_loop(
    rows: list[Row], multiple: int
) -> None:
    """B22, B23: exactly the sampled tokens, each predicted by the token before it."""
    indices = list(range(len(rows)))
    expected = [
        (index, row.ids[t - 1], row.ids[t], row.logprob[t])
        for index, row in enumerate(rows)
        for t in range(len(row.ids))
        if row.mask[t]
    ]
    assert flat(pack(rows, indices)) == expected
    assert flat(pad(rows, indices, multiple=multiple)) == expected


def test_an_empty_micro_batch_has_one_dummy_cell_and_no_target() -> None:
    for batch in (pack([], ()), pad([], ())):
        assert batch.ids.shape == (1, 1)
        assert batch.rows == ()
        assert batch.target_S.size == batch.source_S.size == 0
        assert batch.target_S.dtype == np.int64


def test_a_first_token_marked_as_sampled_is_refused() -> None:
    with pytest.raises(ValueError, match="row 0 marks its first token as sampled"):
        pack([a_row([1, 2], [0, 1])], [0])


def test_lists_of_different_length_are_refused() -> None:
    row = Row(ids=[1, 2], mask=[False, True], logprob=[0.0], advantage=1.0, group="g")
    with pytest.raises(ValueError, match="row 0 has 2 ids, 2 mask entries and 1 log-probs"):
        pad([row], [0])


# --- prompts laid once -----------------------------------------------------------------------------------

grouped_rows = st.lists(
    st.tuples(st.sampled_from([(7, 8, 9), (7, 8), (5,)]), st.lists(st.booleans(), max_size=6)), min_size=1, max_size=10
).map(
    lambda drawn: [
        a_row([*prompt, *range(20, 20 + len(own))], [len(prompt) + i for i, on in enumerate(own) if on])
        for prompt, own in drawn
    ]
)  # fmt: skip
"""Rows of three prompts, one a prefix of another; some without a sampled token."""


@given(grouped_rows, st.integers(9, 40), st.integers(1, 4))
def test_a_shared_schedule_holds_each_row_once_within_its_cells(
    rows: list[Row], max_tokens: int, num_ranks: int
) -> None:
    schedule = shared_schedule(rows, max_tokens, num_ranks)
    assert rows_of(schedule) == list(range(len(rows)))
    assert len({len(rank) for rank in schedule.ranks}) == 1
    assert len(schedule.ranks) == num_ranks
    for part in schedule.micro_batches:
        assert pack(rows, part, share=True).ids.size <= max_tokens
    assert schedule == shared_schedule(rows, max_tokens, num_ranks)


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_ranks_share_the_cells_of_one_large_prompt_evenly(num_ranks: int) -> None:
    """Runs are cut at a rank's share, so that one group does not leave other ranks idle."""
    same = [a_row([1, 2, 3, *range(20, 26)], [3, 4, 5, 6, 7, 8]) for _ in range(8)]
    schedule = shared_schedule(same, 1000, num_ranks)
    sizes = [sum(len(part) for part in rank) for rank in schedule.ranks]
    assert sum(sizes) == 8
    assert min(sizes) >= 8 // num_ranks - 1


@given(grouped_rows)
def test_rows_of_a_shared_layout_attend_to_their_own_tokens_only(rows: list[Row]) -> None:
    indices = list(range(len(rows)))
    batch = pack(rows, indices, share=True)
    ids, positions = batch.ids.reshape(-1), batch.position_ids.reshape(-1)
    covered = [cell for span in batch.spans for cell in range(span.start, span.end)]
    assert covered == list(range(ids.size))
    assert batch.num_used == ids.size
    assert batch.padding_frac == 0.0
    seen_of_cell = {
        cell: [*range(span.before_start, span.before_end), *range(span.start, cell + 1)]
        for span in batch.spans
        for cell in range(span.start, span.end)
    }
    for source, target, row in zip(batch.source_S, batch.target_S, batch.row_S, strict=True):
        seen = seen_of_cell[int(source)]
        assert ids[seen].tolist() == rows[row].ids[: len(seen)]
        assert positions[seen].tolist() == list(range(len(seen)))
        assert rows[row].ids[len(seen)] == target
    assert flat(batch) == flat(pack(rows, indices))


def test_a_prompt_of_one_row_stays_within_its_row() -> None:
    rows = [a_row([1, 2, 3], [2]), a_row([4, 5, 6], [1, 2]), a_row([4, 8], [1])]
    batch = pack(rows, [0, 1, 2], share=True)
    assert batch.ids.tolist() == [[1, 2, 3, 4, 5, 6, 8]]
    assert batch.spans == (Span(0, 3), Span(3, 4), Span(4, 6, 3, 4), Span(6, 7, 3, 4))
    assert batch.source_S.tolist() == [1, 3, 4, 3]
    assert prompt_of(rows[0]) == (1, 2)
    assert prompt_of(a_row([1, 2], [])) == (1, 2)


def test_an_unshared_layout_has_one_span_a_row() -> None:
    rows = [a_row([1, 2, 3], [2]), a_row([1, 2], [1])]
    assert pack(rows, [0, 1]).spans == (Span(0, 3), Span(3, 5))
    assert pad(rows, [0, 1]).spans == ()


def test_rows_that_fit_no_shared_schedule_are_refused_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"row 1 has 3 tokens.*objective.micro_batch_tokens"):
        shared_schedule([a_row([1], []), a_row([1, 2, 3], [2])], 2)
