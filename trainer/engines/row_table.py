"""`RowTable`: the cache row of each session, and the numbers of all rows as arrays.

Rows keep their place when a session leaves for a tool, so its return moves nothing. Decoding runs over rows
[0, width) and computes the few idle rows among them in vain, until `compaction` finds too many. Arrays hold one entry
per row (N) or per row and position (L).
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

from trainer.engines.draw import seed_words
from trainer.engines.requests import GenerateRequest

MAX_STOP_IDS = 8
_FIRST_ROWS = 32
_IDLE_SHARE = 16
"""Compact if more than one row in this many is idle."""


class RowTable:
    """Bookkeeping of rows; `KVCache` holds their keys and values.

    A running row holds ids[: position + 1]; the last one is not cached yet and is fed next. A parked row has
    ids[:position] cached.
    """

    def __init__(self, max_len: int) -> None:
        self._max_len = max_len
        self.row_of: dict[str, int] = {}
        self._session_of: list[str | None] = [None] * _FIRST_ROWS
        self._free = list(range(_FIRST_ROWS))
        self.ids_NL = np.zeros((_FIRST_ROWS, max_len), np.int64)
        self.logprob_NL = np.zeros((_FIRST_ROWS, max_len), np.float32)
        self.stop_NK = np.full((_FIRST_ROWS, MAX_STOP_IDS), -1, np.int64)
        self.position_N = np.zeros(_FIRST_ROWS, np.int64)
        self.num_sampled_N = np.zeros(_FIRST_ROWS, np.int64)
        self.max_new_N = np.zeros(_FIRST_ROWS, np.int64)
        self.seed_N = np.zeros(_FIRST_ROWS, np.uint64)
        self.temperature_N = np.ones(_FIRST_ROWS)
        self.top_p_N = np.ones(_FIRST_ROWS)
        self.live_N = np.zeros(_FIRST_ROWS, bool)

    @property
    def num_rows(self) -> int:
        return len(self._session_of)

    @property
    def width(self) -> int:
        """One past the last live row."""
        live = np.flatnonzero(self.live_N)
        return int(live[-1]) + 1 if len(live) else 0

    @property
    def num_cached(self) -> int:
        """Cached tokens of all rows; free rows have none."""
        return int(self.position_N.sum())

    def cached_len(self, session: str) -> int:
        row = self.row_of.get(session)
        return 0 if row is None else int(self.position_N[row])

    def continues(self, session: str, context: NDArray[np.int64]) -> bool:
        """True if the session's cached ids are a proper prefix of the context."""
        row = self.row_of[session]
        length = self.position_N[row]
        return length < len(context) and np.array_equal(self.ids_NL[row, :length], context[:length])

    def holds(self, session: str, prefix: NDArray[np.int64]) -> bool:
        """True if the session's cache begins with the prefix."""
        row = self.row_of.get(session)
        if row is None or self.position_N[row] < len(prefix):
            return False
        return np.array_equal(self.ids_NL[row, : len(prefix)], prefix)

    def begin(
        self,
        session: str,
        request: GenerateRequest,
        context: NDArray[np.int64],
        logprob: NDArray[np.float32],
    ) -> int:
        """Make the session's row live on `context`; its last len(logprob) ids are sampled ones.

        Returns the row. The caller caches the ids that `cached_len` lacks, except the last id.
        """
        if session not in self.row_of:
            self._take_row(session)
        row = self.row_of[session]
        length = len(context)
        self.ids_NL[row, :length] = context
        self.logprob_NL[row, length - len(logprob) : length] = logprob
        self.stop_NK[row] = -1
        self.stop_NK[row, : len(request.stop_ids)] = request.stop_ids
        self.position_N[row] = length - 1
        self.num_sampled_N[row] = len(logprob)
        self.max_new_N[row] = request.max_new
        self.seed_N[row] = seed_words([request.seed])[0]
        self.temperature_N[row], self.top_p_N[row] = request.temperature, request.top_p
        self.live_N[row] = True
        return row

    def record(self, token_N: NDArray[np.int64], logprob_N: NDArray[np.float32]) -> NDArray[np.intp]:
        """Append one drawn token to each live row below the width; return the rows whose turn ends.

        The stop token is kept (public fault B25).
        """
        rows = np.flatnonzero(self.live_N)
        tokens = token_N[rows]
        self.position_N[rows] += 1
        self.num_sampled_N[rows] += 1
        self.ids_NL[rows, self.position_N[rows]] = tokens
        self.logprob_NL[rows, self.position_N[rows]] = logprob_N[rows]
        stopped = (self.stop_NK[rows] == tokens[:, None]).any(1)
        return rows[stopped | (self.num_sampled_N[rows] >= self.max_new_N[rows])]

    def sampled(self, session: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Copies of the ids and log-probs drawn in this turn."""
        row = self.row_of[session]
        end = self.position_N[row] + 1
        first = end - self.num_sampled_N[row]
        return self.ids_NL[row, first:end].copy(), self.logprob_NL[row, first:end].copy()

    def context(self, session: str) -> NDArray[np.int64]:
        """A copy of all ids of a running row, including the one that is not cached yet."""
        row = self.row_of[session]
        return self.ids_NL[row, : self.position_N[row] + 1].copy()

    def session(self, row: int) -> str:
        session = self._session_of[row]
        assert session is not None
        return session

    def park(self, session: str) -> None:
        self.live_N[self.row_of[session]] = False

    def forget(self, session: str) -> None:
        """Free the session's row."""
        row = self.row_of.pop(session)
        self._session_of[row] = None
        self.live_N[row] = False
        self.position_N[row] = 0
        heapq.heappush(self._free, row)

    def compaction(self) -> list[tuple[int, int]]:
        """Pairs (idle row, live row behind it) to exchange; empty while few rows below the width are idle."""
        width = self.width
        idle = np.flatnonzero(~self.live_N[:width])
        if len(idle) * _IDLE_SHARE <= width:
            return []
        num_live = width - len(idle)
        holes = idle[idle < num_live]
        behind = np.flatnonzero(self.live_N[:width])[::-1][: len(holes)]
        return [(int(hole), int(row)) for hole, row in zip(holes, behind, strict=True)]

    def exchange(self, left: int, right: int) -> None:
        """Swap the contents of two rows."""
        pair, crossed = [left, right], [right, left]
        for array in self._arrays():
            array[pair] = array[crossed]
        sessions = self._session_of
        sessions[left], sessions[right] = sessions[right], sessions[left]
        for row in pair:
            session = sessions[row]
            if session is not None:
                self.row_of[session] = row
            else:
                came_from = left if row == right else right
                self._free[self._free.index(came_from)] = row
        heapq.heapify(self._free)

    def _take_row(self, session: str) -> None:
        if not self._free:
            self._grow()
        row = heapq.heappop(self._free)
        self._session_of[row] = session
        self.row_of[session] = row

    def _grow(self) -> None:
        count = self.num_rows
        for name in _ARRAYS:
            array = getattr(self, name)
            fill = -1 if name == "stop_NK" else 0
            setattr(self, name, np.concatenate([array, np.full_like(array, fill)]))
        self._session_of += [None] * count
        self._free += range(count, 2 * count)
        heapq.heapify(self._free)

    def _arrays(self) -> list[np.ndarray]:
        return [getattr(self, name) for name in _ARRAYS]


_ARRAYS = (
    "ids_NL",
    "logprob_NL",
    "stop_NK",
    "position_N",
    "num_sampled_N",
    "max_new_N",
    "seed_N",
    "temperature_N",
    "top_p_N",
    "live_N",
)
