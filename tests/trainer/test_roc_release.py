"""The released code's quotas and text penalties: its table, its refusals, its known misreadings."""

from __future__ import annotations

import pytest

from config.contradictions import release_adds_up
from trainer.selection.roc_release import p_err_text, p_format_text, release_counts

TABLE_32_TO_16 = {1: 1, 2: 2, 3: 2, 4: 2, 5: 2, 6: 3, 7: 4, 8: 4, 9: 4, 10: 5, 11: 6, 12: 6, 13: 6, 14: 7}
TABLE_32_TO_16 |= {15: 8, 16: 8, 17: 8, 18: 9, 19: 10, 20: 10, 21: 10, 22: 11, 23: 12, 24: 12, 25: 12, 26: 13}
TABLE_32_TO_16 |= {27: 14, 28: 14, 29: 14, 30: 14, 31: 15}
"""Wrong rollouts of 32 -> wrong rollouts kept of 16, minima 2 and 2."""


def test_32_to_16_gives_the_known_table() -> None:
    counts = {n: release_counts(32 - n, n, 16) for n in range(1, 32)}
    assert counts == {n: (16 - kept, kept) for n, kept in TABLE_32_TO_16.items()}


@pytest.mark.parametrize("G", [4, 5, 8, 16])
def test_the_shipped_sizes_never_refuse(G: int) -> None:
    assert all(release_adds_up(num, n, G) for num in range(G + 1, 41) for n in range(1, num))


def test_every_accepted_split_up_to_40_keeps_exactly_g() -> None:
    for num_rollouts in range(5, 41):
        for G in range(4, num_rollouts):
            for num_negative in range(1, num_rollouts):
                if not release_adds_up(num_rollouts, num_negative, G):
                    continue
                positive, negative = release_counts(num_rollouts - num_negative, num_negative, G)
                assert positive + negative == G
                assert positive <= num_rollouts - num_negative
                assert negative <= num_negative


def test_minima_that_exceed_g_and_groups_that_are_not_larger_are_refused() -> None:
    with pytest.raises(ValueError, match=r"G = 3 holds fewer"):
        release_counts(3, 3, 3)
    with pytest.raises(ValueError, match="only among more than G = 16"):
        release_counts(8, 8, 16)


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("no call", 0.5),
        ("<tool_response>\n4\n</tool_response>", 0.0),
        ("<tool_response>\nValueError: x\n</tool_response>", 1.0),
        ("<tool_response>\nerror = 1e-9\n</tool_response>", 1.0),
        ("<tool_response>\nreason: worker_timeout\n</tool_response>", 0.0),
        ("error outside <tool_response>4</tool_response>", 0.0),
        ("<tool_response>4</tool_response><tool_response>ERROR</tool_response>", 0.5),
    ],
)
def test_errors_are_found_by_substring_of_tool_responses(response: str, expected: float) -> None:
    assert p_err_text(response) == expected


TURN = "<|im_start|>assistant\n<reason>x</reason>{}<|im_end|>"


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("<answer>1</answer><|im_end|>", 1.0),
        ("call<|im_end|>" + TURN.format("<answer>1</answer>"), 0.0),
        ("call<|im_end|>" + TURN.format("") * 3 + TURN.format("<answer>1</answer>" * 2), 0.25),
        ("call<|im_end|>" + TURN.format("<answer>1</answer></answer>"), 1.0),
        ("call<|im_end|>" + TURN.format("<answer>1"), 1.0),
        ("call<|im_end|>" + TURN.format("<answer>1</answer>" * 9), 1.0),
    ],
)
def test_format_penalty_counts_one_turn_too_few(response: str, expected: float) -> None:
    assert p_format_text(response) == expected
