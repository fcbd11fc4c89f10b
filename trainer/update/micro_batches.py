"""`packed_schedule`, `shared_schedule`, `padded_schedule`, `pack`, `pad`: micro-batches and their layouts.

Schedules are pure functions of the lengths and equal on every rank (public faults B34, B42):

- packed: concatenated rows, at most `max_tokens` per micro-batch, evenly filled, without padding
  (`trainer.update.attention` isolates the rows); `shared_schedule` also lays out the prompt of a group once for all
  its rows in the same micro-batch;
- padded: rows of similar length as a right-padded rectangle of at most `max_tokens` cells, with a bounded share of
  padding (plain causal attention; no mask is needed, because a row never attends to its right: B26).

Method of the packed schedules: (1) start with the fewest micro-batches that could hold the tokens, a multiple of the
ranks; (2) put rows, from long to short, into the lightest micro-batch; (3) if one overflows, start again with more;
(4) assign micro-batches to ranks by size.

Invariants that the tests assert: each row exactly once (B35); never more than `max_tokens`; equally many micro-batches
on every rank, empty ones as padding (B42); a target is the token after its hidden state (B12); only sampled tokens are
targets, by position and never by value (B22, B23, B24).

Suffixes: N rows of the batch, S targets (sampled tokens of a micro-batch). A cell is one place of the B x L layout.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trainer.update.training_rows import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The whole batch, split into micro-batches for all ranks."""

    ranks: tuple[tuple[tuple[int, ...], ...], ...]
    """[rank][micro-batch] -> ascending row indices; () is a padding micro-batch. Ranks have equally many."""

    @property
    def micro_batches(self) -> list[tuple[int, ...]]:
        """Micro-batches with rows, rank by rank."""
        return [rows for rank in self.ranks for rows in rank if rows]


@dataclass(frozen=True, slots=True)
class Span:
    """Cells start to end attend to cells before_start to before_end and, causally, to each other."""

    start: int
    end: int
    before_start: int = 0
    before_end: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MicroBatch:
    """Rows in the B x L cells of one forward pass (packed: B = 1)."""

    rows: tuple[int, ...]
    """Row indices into the batch; () in a padding micro-batch, which has one dummy cell and no target."""
    ids: NDArray[np.int64]
    """[B, L]"""
    position_ids: NDArray[np.int64]
    """[B, L], from 0 in each row; 0 in padding."""
    lengths: NDArray[np.int64]
    """Tokens of each row, in the order of `rows`."""
    source_S: NDArray[np.int64]
    """Flat cell (of B * L) whose hidden state predicts target s: the cell just before it."""
    target_S: NDArray[np.int64]
    """Sampled token ids."""
    row_S: NDArray[np.int64]
    """Row of the batch of each target."""
    behaviour_S: NDArray[np.float64]
    """Behaviour log-probs, nats."""
    advantage_S: NDArray[np.float64]
    num_used: int
    """Cells that hold a token."""
    spans: tuple[Span, ...] = ()
    """Packed: the spans, with every cell in one. Padded: empty, plain causal attention applies."""

    @property
    def cu_seqlens(self) -> NDArray[np.int32]:
        """Packed without shared prompts: row i is in cells cu_seqlens[i] to cu_seqlens[i + 1]."""
        return np.concatenate([[0], np.cumsum(self.lengths)]).astype(np.int32)

    @property
    def padding_frac(self) -> float:
        """Share of cells without a token."""
        return 1.0 - self.num_used / self.ids.size


# --- schedules -------------------------------------------------------------------------------------------


def packed_schedule(lengths_N: Sequence[int], max_tokens: int, num_ranks: int = 1) -> Schedule:
    """Split rows into evenly filled micro-batches of at most `max_tokens` tokens, equally many per rank.

    Args:
        lengths_N: tokens of each row, prompt included.
        max_tokens: largest number of tokens of one micro-batch.
        num_ranks: data-parallel ranks.

    Raises:
        ValueError: a row is empty or longer than `max_tokens`, or a number is below 1.

    >>> packed_schedule([6, 5, 4, 3], max_tokens=10).ranks
    (((0, 3), (1, 2)),)
    >>> packed_schedule([6, 5, 4], max_tokens=10, num_ranks=2).ranks
    (((1, 2),), ((0,),))
    >>> packed_schedule([6], max_tokens=10, num_ranks=2).ranks
    (((0,),), ((),))
    """
    _check(lengths_N, max_tokens, num_ranks)
    num_bins = _round_up(-(-sum(lengths_N) // max_tokens), num_ranks)
    while (bins := _fill(lengths_N, max_tokens, num_bins)) is None:
        num_bins = _round_up(num_bins + max(num_ranks, num_bins // 64), num_ranks)
    return _deal(bins, [sum(lengths_N[row] for row in rows) for rows in bins], num_ranks)


def shared_schedule(rows_N: Sequence[Row], max_tokens: int, num_ranks: int = 1) -> Schedule:
    """As `packed_schedule`, but rows of one prompt stay together and their prompt counts once.

    Rows of a prompt are cut into runs that fit one micro-batch, or one rank's even share if that is smaller; the
    runs are then packed. `max_tokens` bounds the computed cells, not the tokens of the rows.

    Raises:
        ValueError: as `packed_schedule`.

    Three rows of one prompt of 4 tokens and 2 sampled ones each take 4 + 3 * 2 = 10 cells, not 18:

    >>> row = Row(ids=[1, 2, 3, 4, 8, 9], mask=[False] * 4 + [True] * 2, logprob=[0.0] * 4 + [-1.0] * 2,
    ...           advantage=1.0, group="a")
    >>> shared_schedule([row] * 3, max_tokens=10).ranks
    (((0, 1, 2),),)
    >>> shared_schedule([row] * 3, max_tokens=9).ranks
    (((0, 1), (2,)),)
    """
    _check([len(row.ids) for row in rows_N], max_tokens, num_ranks)
    clusters: dict[tuple[int, ...], list[int]] = {}
    for index, row in enumerate(rows_N):
        clusters.setdefault(prompt_of(row), []).append(index)
    total = sum(
        len(prompt) + sum(len(rows_N[i].ids) - len(prompt) for i in c) for prompt, c in clusters.items()
    )
    limit = min(max_tokens, -(-total // num_ranks))
    runs: list[list[int]] = []
    sizes: list[int] = []
    for prompt, cluster in clusters.items():
        open_run = False
        for index in cluster:
            own = len(rows_N[index].ids) - len(prompt)
            if open_run and sizes[-1] + own <= limit:
                runs[-1].append(index)
                sizes[-1] += own
            else:
                runs.append([index])
                sizes.append(len(prompt) + own)
                open_run = True
    dealt = packed_schedule(sizes, max_tokens, num_ranks)
    return Schedule(
        ranks=tuple(
            tuple(tuple(sorted(row for run in part for row in runs[run])) for part in rank)
            for rank in dealt.ranks
        )
    )


def prompt_of(row: Row) -> tuple[int, ...]:
    """The ids before the first sampled one; all ids of a row without sampled ones."""
    return tuple(row.ids[: row.mask.index(True) if True in row.mask else len(row.ids)])


def padded_schedule(
    lengths_N: Sequence[int], max_tokens: int, max_padding_frac: float = 0.1, num_ranks: int = 1
) -> Schedule:
    """Group rows of similar length into rectangles of at most `max_tokens` cells, equally many per rank.

    Rows go from long to short into the open rectangle until the next one would exceed the cells or the share of
    padding. If the count is not a multiple of the ranks, the largest rectangles are halved.

    Args:
        lengths_N: tokens of each row, prompt included.
        max_tokens: largest number of cells (rows * longest row) of one micro-batch.
        max_padding_frac: largest share of cells without a token, in [0, 1), of a rectangle that is not halved. Two
            halves together never hold more cells than the whole.
        num_ranks: data-parallel ranks.

    Raises:
        ValueError: as `packed_schedule`, or `max_padding_frac` outside [0, 1).

    >>> padded_schedule([10, 4, 9, 5, 10], max_tokens=30, max_padding_frac=0.1).ranks
    (((0, 2, 4), (1, 3)),)
    >>> padded_schedule([10, 4, 9, 5, 10], max_tokens=30, max_padding_frac=0.0).ranks
    (((0, 4), (2,), (3,), (1,)),)
    """
    _check(lengths_N, max_tokens, num_ranks)
    if not 0.0 <= max_padding_frac < 1.0:
        raise ValueError(f"max_padding_frac is {max_padding_frac}: give a share in [0, 1)")
    rectangles: list[list[int]] = []
    num_tokens = 0
    for row in sorted(range(len(lengths_N)), key=lambda row: (-lengths_N[row], row)):
        if rectangles:
            num_cells = lengths_N[rectangles[-1][0]] * (len(rectangles[-1]) + 1)
            if (
                num_cells <= max_tokens
                and num_tokens + lengths_N[row] >= (1.0 - max_padding_frac) * num_cells
            ):
                rectangles[-1].append(row)
                num_tokens += lengths_N[row]
                continue
        rectangles.append([row])
        num_tokens = lengths_N[row]
    rectangles = _halve(rectangles, lengths_N, num_ranks)
    sizes = [lengths_N[rows[0]] * len(rows) for rows in rectangles]
    return _deal([tuple(sorted(rows)) for rows in rectangles], sizes, num_ranks)


def _check(lengths_N: Sequence[int], max_tokens: int, num_ranks: int) -> None:
    if num_ranks < 1:
        raise ValueError(f"num_ranks is {num_ranks}: give 1 or more")
    for row, length in enumerate(lengths_N):
        if not 1 <= length <= max_tokens:
            raise ValueError(
                f"row {row} has {length} tokens, a micro-batch holds 1 to {max_tokens}: "
                "raise objective.micro_batch_tokens to the longest prompt plus response"
            )


def _round_up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _fill(lengths_N: Sequence[int], max_tokens: int, num_bins: int) -> list[tuple[int, ...]] | None:
    """Put rows, longest first, into the lightest bin; None if a bin overflows. Ties by row and bin number."""
    lightest = [(0, number) for number in range(num_bins)]
    bins: list[list[int]] = [[] for _ in range(num_bins)]
    for row in sorted(range(len(lengths_N)), key=lambda row: (-lengths_N[row], row)):
        num_tokens, number = lightest[0]
        if num_tokens + lengths_N[row] > max_tokens:
            return None
        bins[number].append(row)
        heapq.heapreplace(lightest, (num_tokens + lengths_N[row], number))
    return [tuple(sorted(rows)) for rows in bins]


def _halve(rectangles: list[list[int]], lengths_N: Sequence[int], num_ranks: int) -> list[list[int]]:
    """Split the largest rectangles until the count is a multiple of the ranks, or none can be split."""
    rectangles = list(rectangles)
    while len(rectangles) % num_ranks:
        largest = max(
            range(len(rectangles)),
            key=lambda i: (len(rectangles[i]) > 1, lengths_N[rectangles[i][0]] * len(rectangles[i])),
        )
        rows = rectangles[largest]
        if len(rows) == 1:
            break
        rectangles[largest : largest + 1] = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    return rectangles


def _deal(bins: Sequence[tuple[int, ...]], sizes: Sequence[int], num_ranks: int) -> Schedule:
    """Assign micro-batches, largest first, to the lightest rank with a free place; pad with empty ones."""
    places = -(-len(bins) // num_ranks)
    ranks: list[list[tuple[int, ...]]] = [[] for _ in range(num_ranks)]
    loads = [0] * num_ranks
    for number in sorted(range(len(bins)), key=lambda number: (-sizes[number], number)):
        rank = min((r for r in range(num_ranks) if len(ranks[r]) < places), key=lambda r: (loads[r], r))
        ranks[rank].append(bins[number])
        loads[rank] += sizes[number]
    return Schedule(ranks=tuple(tuple(dealt + [()] * (places - len(dealt))) for dealt in ranks))


# --- layouts ---------------------------------------------------------------------------------------------


def pack(rows_N: Sequence[Row], indices: Sequence[int], share: bool = False) -> MicroBatch:
    """Concatenate the chosen rows.

    Args:
        rows_N: the whole batch.
        indices: rows of this micro-batch; () gives one dummy cell without a target.
        share: lay out a common prompt of several rows once; all of them attend to its cells.

    Raises:
        ValueError: the first token of a row is marked as sampled (no hidden state predicts it), or the lists of
            a row differ in length.

    A row of 4 tokens, the last two sampled: cell 1 predicts token 12, cell 2 predicts token 13.

    >>> row = Row(ids=[10, 11, 12, 13], mask=[False, False, True, True], logprob=[0.0, 0.0, -0.1, -0.2],
    ...           advantage=1.0, group="a")
    >>> batch = pack([row, row], [0, 1])
    >>> batch.source_S.tolist(), batch.target_S.tolist(), batch.cu_seqlens.tolist()
    ([1, 2, 5, 6], [12, 13, 12, 13], [0, 4, 8])
    >>> batch = pack([row, row], [0, 1], share=True)
    >>> batch.ids.tolist(), batch.source_S.tolist(), batch.position_ids.tolist()
    ([[10, 11, 12, 13, 12, 13]], [1, 2, 1, 4], [[0, 1, 2, 3, 2, 3]])
    """
    clusters: dict[tuple[int, ...], list[int]] = {}
    for index in indices:
        clusters.setdefault(prompt_of(rows_N[index]) if share else (index,), []).append(index)
    cells_of_row: dict[int, NDArray[np.int64]] = {}
    spans: list[Span] = []
    end = 0
    for cluster in clusters.values():
        common = len(prompt_of(rows_N[cluster[0]])) if len(cluster) > 1 else 0
        prompt = np.arange(end, end + common)
        if common:
            spans.append(Span(end, end + common))
            end += common
        for index in cluster:
            own = len(rows_N[index].ids) - common
            cells_of_row[index] = np.concatenate([prompt, np.arange(end, end + own)])
            if own:
                before = (int(prompt[0]), int(prompt[-1]) + 1) if common else (0, 0)
                spans.append(Span(end, end + own, *before))
            end += own
    cells = [cells_of_row[index] for index in indices]
    return _lay_out(
        rows_N, indices, cells, shape=(1, max(end, 1)), pad_id=0, spans=tuple(spans) or (Span(0, 1),)
    )


def pad(rows_N: Sequence[Row], indices: Sequence[int], pad_id: int = 0, multiple: int = 1) -> MicroBatch:
    """Stack the chosen rows, padded on the right to the longest.

    Causal attention needs no mask: the padding is to the right of every token of its row.

    Args:
        rows_N: the whole batch.
        indices: rows of this micro-batch; () gives one dummy cell without a target.
        pad_id: any id of the vocabulary; position marks padding, never value (B24).
        multiple: round the width up to a multiple of this; few distinct shapes are faster.

    Raises:
        ValueError: as `pack`.

    >>> short = Row(ids=[10, 11], mask=[False, True], logprob=[0.0, -0.1], advantage=1.0, group="a")
    >>> long = Row(ids=[7, 8, 9], mask=[False, True, True], logprob=[0, -1, -1], advantage=1.0, group="a")
    >>> batch = pad([short, long], [0, 1])
    >>> batch.ids.tolist(), batch.source_S.tolist(), batch.target_S.tolist()
    ([[10, 11, 0], [7, 8, 9]], [0, 3, 4], [11, 8, 9])
    """
    width = _round_up(max([len(rows_N[index].ids) for index in indices], default=1), multiple)
    cells = [place * width + np.arange(len(rows_N[index].ids)) for place, index in enumerate(indices)]
    return _lay_out(rows_N, indices, cells, shape=(max(len(indices), 1), width), pad_id=pad_id)


def _lay_out(
    rows_N: Sequence[Row],
    indices: Sequence[int],
    cells_of_rows: Sequence[NDArray[np.int64]],
    shape: tuple[int, int],
    pad_id: int,
    spans: tuple[Span, ...] = (),
) -> MicroBatch:
    """Put token t of a row into its cell t; rows that share cells have the same tokens there."""
    ids = np.full(shape[0] * shape[1], pad_id, dtype=np.int64)
    position_ids = np.zeros(shape[0] * shape[1], dtype=np.int64)
    used = np.zeros(shape[0] * shape[1], dtype=bool)
    source, target, row_of, behaviour, advantage = [], [], [], [], []
    for index, cells in zip(indices, cells_of_rows, strict=True):
        row = rows_N[index]
        sampled = _sampled(row, index)
        row_ids = np.asarray(row.ids, dtype=np.int64)
        ids[cells] = row_ids
        position_ids[cells] = np.arange(len(row_ids))
        used[cells] = True
        source.append(cells[sampled - 1])
        target.append(row_ids[sampled])
        row_of.append(np.full(len(sampled), index))
        behaviour.append(np.asarray(row.logprob, dtype=np.float64)[sampled])
        advantage.append(np.full(len(sampled), row.advantage))
    return MicroBatch(
        rows=tuple(indices),
        ids=ids.reshape(shape),
        position_ids=position_ids.reshape(shape),
        lengths=np.asarray([len(rows_N[index].ids) for index in indices], dtype=np.int64),
        source_S=_joined(source, np.int64),
        target_S=_joined(target, np.int64),
        row_S=_joined(row_of, np.int64),
        behaviour_S=_joined(behaviour, np.float64),
        advantage_S=_joined(advantage, np.float64),
        num_used=int(used.sum()),
        spans=spans,
    )


def _sampled(row: Row, index: int) -> NDArray[np.int64]:
    """Positions of the sampled tokens of one row."""
    if not len(row.ids) == len(row.mask) == len(row.logprob):
        raise ValueError(
            f"row {index} has {len(row.ids)} ids, {len(row.mask)} mask entries and {len(row.logprob)} "
            "log-probs: all three need one entry per token"
        )
    if row.mask and row.mask[0]:
        raise ValueError(f"row {index} marks its first token as sampled: no hidden state predicts it")
    return np.flatnonzero(np.asarray(row.mask, dtype=bool))


def _joined(parts: list[NDArray], dtype: type) -> NDArray:
    return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype=dtype)
