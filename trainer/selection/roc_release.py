"""Rules of the public release that differ from the paper: quotas, and penalties by text search.

They allow a comparison of both; `trainer.selection.roc` uses them for the rule `release`. They are pure functions of
counts and of the decoded response (with special tokens), written from the project's description of the released
down-sampler, without its code.
"""

from __future__ import annotations

import re

from config.contradictions import RELEASE_MINIMUM

_TOOL_RESPONSE = re.compile(r"<tool_response>.*?</tool_response>", re.DOTALL)
_ASSISTANT_TURN = re.compile(r"<\|im_start\|>assistant.*?<\|im_end\|>", re.DOTALL)
_ANSWER = re.compile(r"<answer>.*?</answer>", re.DOTALL)


def release_counts(num_positive: int, num_negative: int, G: int) -> tuple[int, int]:
    """Numbers of positives and negatives that the released code keeps of a group larger than G.

    Both shares are rounded half to even, then raised to `RELEASE_MINIMUM`, negatives first. The rounded shares need
    not sum to G; the release asserts that they do, this function raises an error, and the configuration refuses such
    sizes before a run (`config.contradictions.release_adds_up`). (The release also keeps a whole group when both
    shares are below the minimum, which cannot happen with minima that fit into G.)

    Args:
        num_positive: rollouts of reward > 0.
        num_negative: rollouts of reward <= 0.
        G: rollouts to keep; less than the sum of the two.

    Returns:
        (positives, negatives) to keep; they sum to G.

    Raises:
        ValueError: G holds fewer than the minima, or the release's own assertion fails.

    >>> release_counts(31, 1, 16), release_counts(16, 16, 16), release_counts(5, 27, 16)
    ((15, 1), (8, 8), (2, 14))
    >>> release_counts(8, 8, 15)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    ValueError: the release rule keeps 8 + 8 of 8 right and 8 wrong rollouts, not G = 15: ...
    """
    if 2 * RELEASE_MINIMUM > G:
        raise ValueError(f"the release keeps {RELEASE_MINIMUM} of each class at least: G = {G} holds fewer")
    num_valid = num_positive + num_negative
    if num_valid <= G:
        raise ValueError(f"the release rule chooses only among more than G = {G} rollouts, not {num_valid}")
    negative = round(num_negative * G / num_valid)
    positive = round(num_positive * G / num_valid)
    least_negative = min(RELEASE_MINIMUM, num_negative)
    if negative <= least_negative:
        negative = least_negative
        positive = G - negative
    least_positive = min(RELEASE_MINIMUM, num_positive)
    if positive <= least_positive:
        positive = least_positive
        negative = G - positive
    if min(positive, num_positive) + min(negative, num_negative) != G:
        raise ValueError(
            f"the release rule keeps {positive} + {negative} of {num_positive} right and {num_negative} "
            f"wrong rollouts, not G = {G}: its own assertion fails here; take another G or "
            "roc.selection = paper"
        )
    return positive, negative


def p_err_text(response: str) -> float:
    """Share of tool responses that contain 'error' in any case, as the release searches; 0.5 without a response.

    Known consequences, kept as they are: a timeout and most parse failures count as clean, and a program that
    prints 'error = 1e-9' counts as failed.

    Args:
        response: everything after the prompt, decoded with special tokens.

    >>> p_err_text("<tool_response>ValueError</tool_response> <tool_response>4</tool_response>")
    0.5
    >>> p_err_text("<tool_response>reason: worker_timeout</tool_response>"), p_err_text("no call")
    (0.0, 0.5)
    """
    tool_responses = _TOOL_RESPONSE.findall(response)
    if not tool_responses:
        return 0.5
    return sum("error" in text.lower() for text in tool_responses) / len(tool_responses)


def p_format_text(response: str) -> float:
    r"""Format penalty as the release counts it.

    The penalty is 1 unless opening tags, closing tags and pairs agree and exist; else min(1, (pairs - 1) / turns).
    Turns are assistant headers in the response. The prompt contains the first header, so the count is one too small,
    and a perfect answer in a single turn gets 1.

    Args:
        response: everything after the prompt, decoded with special tokens.

    >>> p_format_text("<answer>1</answer><|im_end|>")
    1.0
    >>> two_turns = "call<|im_end|>user...<|im_start|>assistant\n<answer>1</answer><|im_end|>"
    >>> p_format_text(two_turns), p_format_text(two_turns.replace("1", "1</answer><answer>1"))
    (0.0, 1.0)
    """
    num_pairs = len(_ANSWER.findall(response))
    num_turns = len(_ASSISTANT_TURN.findall(response))
    counts = (response.count("<answer>"), response.count("</answer>"), num_pairs)
    if num_pairs == 0 or num_turns == 0 or len(set(counts)) > 1:
        return 1.0
    return min(1.0, (num_pairs - 1) / num_turns)
