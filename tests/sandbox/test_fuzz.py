"""No bytes of a child, in any order, make a reader raise, and each cell has one answer."""

from __future__ import annotations

import pytest

from tests.sandbox.fuzz import fuzz


@pytest.mark.parametrize("seed", range(3))
def test_random_messages_raise_nothing_and_every_cell_is_answered_once(seed: int) -> None:
    submitted, answered = fuzz(4_000, seed)
    assert submitted == answered > 20
