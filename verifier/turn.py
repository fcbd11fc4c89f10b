r"""`read_turn`: divides an assistant turn into reasoning, calls and answer text, for training and evaluation alike.

Calls and answers count outside the reasoning only. A call is read as JSON from its opening tag on, so a tag inside a
JSON string has no meaning. A mere mention of the protocol is text. docs/verifier.md gives the policy in full. The
parser makes one pass, in time linear in the text, and raises only `CallUnread`.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest
from typing import Any

MAX_NESTING = 100
"""Nesting of brackets in a call. The limit of the interpreter depends on its caller; this one does not."""
MAX_DIGITS = 4300
"""Digits of a whole number in a call."""

_TAG = re.compile(r"<(/?)(think|thinking|reason|tool_call|tool_response|answer)>")
_REASONING = frozenset({"think", "thinking", "reason"})
_OBJECT = re.compile(r"\s*+\{")
_PIECE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{\[]++|[}\]]++|[^"{}\[\]<\\]++', re.DOTALL)
"""A JSON string, a run of brackets, or other JSON text: never `<` or a backslash."""
_ANSWER = re.compile("</?answer>")
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")


class CallUnread(ValueError):
    """The text between the tags is no JSON that a call may hold; the message names the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallText:
    """One place where a turn calls a tool."""

    body: str | None
    """Text between the tags; None when the closing tag is missing."""
    is_object: bool
    """It begins as a JSON object."""

    def value(self) -> Any:
        """Return the JSON of the call; the last of equal keys counts, and strings may hold line breaks.

        Raises:
            CallUnread: no JSON, or JSON with NaN, a lone surrogate, over MAX_DIGITS digits or MAX_NESTING brackets.
        """
        if self.body is None:
            raise CallUnread("</tool_call> is missing")
        if _nesting(self.body) > MAX_NESTING:
            raise CallUnread(f"not JSON: nested more than {MAX_NESTING} deep")
        try:
            value = json.loads(self.body, strict=False, parse_int=_integer, parse_constant=_refuse)
            # A lone surrogate, valid in JSON, can be neither sent to the sandbox nor stored.
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError) as error:
            raise CallUnread(f"not JSON: {error}") from None
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnText:
    """The parts of a turn."""

    visible: str
    """Text outside the reasoning, calls included."""
    answer_text: str
    """Text outside the reasoning, the calls and quoted tool responses; it may hold an answer."""
    calls: tuple[CallText, ...]
    """Calls outside the reasoning, answers and quoted tool responses, in order; see `_calls`."""
    answers: tuple[str, ...]
    """Contents of the closed `<answer>` blocks in `answer_text`."""

    @property
    def num_answers(self) -> int:
        """Return the number of `<answer>` openings in `answer_text`."""
        return self.answer_text.count("<answer>")

    @property
    def gives_answer(self) -> bool:
        """Return whether it holds a closed `<answer>` or a box. Then an unreadable call is text about calls."""
        return bool(self.answers) or _BOX.search(self.answer_text) is not None


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag outside the JSON of a call."""

    name: str
    closes: bool
    start: int
    end: int
    value_end: int | None = None
    """For an opening `<tool_call>` before a JSON object: the end of the object, or of its readable part."""
    is_whole: bool = False
    """The JSON object is complete."""

    @property
    def is_object(self) -> bool:
        return self.value_end is not None


def read_turn(text: str, *, opened: bool = False) -> TurnText:
    r"""Divide one turn into its parts.

    Args:
        text: the text that the policy sampled in one turn.
        opened: the prompt ends in an opening `<reason>`, so the text begins inside the reasoning. A turn that never
            closes it neither calls nor answers.

    >>> turn = read_turn('try <tool_call>{"a": 1}</tool_call></reason><tool_call>{"a": "</tool_call>"}</tool_call>',
    ...     opened=True)
    >>> [call.value() for call in turn.calls]
    [{'a': '</tool_call>'}]
    >>> read_turn("No <tool_call> is needed: <answer>4</answer>").calls
    ()
    """
    marks = tags(text)
    spans = _outside_reasoning([mark for mark in marks if mark.name in _REASONING], len(text), opened)
    outside = list(_within([mark for mark in marks if mark.name not in _REASONING], spans))
    answers, responses = _pairs(outside, "answer"), _pairs(outside, "tool_response")
    quoted = _merged([*answers, *responses])
    calls = [mark for mark in outside if mark.name == "tool_call" and not _is_inside(mark.start, quoted)]
    blocks, found = _calls(text, calls, outside)
    cut = _merged([*responses, *blocks])
    answer_text = _joined(text, _without(spans, cut))
    return TurnText(
        visible=_joined(text, spans), answer_text=answer_text, calls=found, answers=_answers(answer_text)
    )


def without_reasoning(text: str) -> str:
    """Return the text outside `<think>`, `<thinking>` and `<reason>` spans.

    If the first tag closes, it ends reasoning that began in the prompt; a later closing tag without an opening is
    text. An opening tag that is never closed hides the rest; inside the reasoning it is text if no closing tag is
    left for it.

    >>> without_reasoning("a</reason>b<think>c</think>d<think>e")
    'bd'
    >>> without_reasoning("<think>I write <think> first.</think>4")
    '4'
    """
    if "<" not in text:
        return text
    marks = [mark for mark in tags(text) if mark.name in _REASONING]
    return _joined(text, _outside_reasoning(marks, len(text), False))


def tags(text: str) -> list[Tag]:
    """Return the tags of the protocol in order, without those inside the JSON of a call."""
    found: list[Tag] = []
    at = 0
    while match := _TAG.search(text, at):
        at = match.end()
        value_end, is_whole = None, False
        if match.group() == "<tool_call>" and (begins := _OBJECT.match(text, at)):
            value_end, is_whole = _value_end(text, begins.end() - 1)
            at = value_end if is_whole else at
        found.append(Tag(match[2], bool(match[1]), match.start(), match.end(), value_end, is_whole))
    return found


def _value_end(text: str, start: int) -> tuple[int, bool]:
    """Return where the brackets that open at `start` close, or where JSON cannot continue; and whether they close.

    A string that never ends takes the rest of the text. Two overlapping attempts see strings and the space between
    them exchanged, and a `<` outside a string ends an attempt. An attempt that begins inside another therefore ends
    at the next tag, so all attempts together take linear time.
    """
    depth, at = 0, start
    while piece := _PIECE.match(text, at):
        at = piece.end()
        size = at - piece.start()
        if text[piece.start()] in "{[":
            depth += size
        elif text[piece.start()] in "}]":
            if size >= depth:
                return piece.start() + depth, True
            depth -= size
    return (len(text) if text[at : at + 1] == '"' else at), False


def _outside_reasoning(marks: Sequence[Tag], length: int, opened: bool) -> list[tuple[int, int]]:
    """Return the stretches of the text outside the reasoning; `marks` are its tags."""
    spans: list[tuple[int, int]] = []
    start, depth = 0, int(opened)
    last_close: int | None = None
    for number, mark in enumerate(marks):
        if not mark.closes:
            if depth == 0:
                spans.append((start, mark.start))
                last_close = None
            depth += 1
            continue
        if depth == 0 and (number or opened):
            continue  # no reasoning is open: text
        depth = max(depth - 1, 0)
        start, last_close = mark.end, number
    if depth == 0:
        spans.append((start, length))
    elif last_close is not None:
        rest = marks[last_close + 1 :]
        spans.append((start, rest[0].start if rest else length))
    return spans


def _within(marks: Sequence[Tag], spans: Sequence[tuple[int, int]]) -> Iterator[Tag]:
    left = iter(spans)
    span = next(left, None)
    for mark in marks:
        while span is not None and span[1] <= mark.start:
            span = next(left, None)
        if span is None:
            return
        if mark.start >= span[0]:
            yield mark


def _pairs(marks: Sequence[Tag], name: str) -> list[tuple[int, int]]:
    """Return stretches from an opening tag to its closing one, without another tag of that name between."""
    named = [mark for mark in marks if mark.name == name]
    return [(one.start, two.end) for one, two in pairwise(named) if two.closes and not one.closes]


def _answers(answer_text: str) -> tuple[str, ...]:
    marks = list(_ANSWER.finditer(answer_text))
    return tuple(
        answer_text[one.end() : two.start()]
        for one, two in pairwise(marks)
        if one.group() == "<answer>" and two.group() == "</answer>"
    )


def _calls(
    text: str, marks: Sequence[Tag], outside: Sequence[Tag]
) -> tuple[list[tuple[int, int]], tuple[CallText, ...]]:
    """Return the stretches of calls, and the calls: those that begin as an object, else all that are closed.

    A tag without `{` behind it is a call only if no other tag in the turn is one, and if the closing tag is the next
    tag of the protocol. So `<tool_call>print(1)</tool_call>` is a call in a wrong form, and 'the <tool_call> tag' is
    none.
    """
    following = {id(one): two for one, two in pairwise(outside)}
    blocks: list[tuple[int, int]] = []
    objects: list[CallText] = []
    others: list[CallText] = []
    for mark, after in zip_longest(marks, marks[1:]):
        if mark.closes:
            continue
        close = after if after is not None and after.closes else None
        if following.get(id(mark)) is not close and (mark.is_whole or not mark.is_object):
            close = None  # another tag of the protocol is between them
        if close is None and not mark.is_object:
            continue
        body = text[mark.end : close.start] if close else None
        (objects if mark.is_object else others).append(CallText(body=body, is_object=mark.is_object))
        blocks.append((mark.start, close.end if close else mark.value_end or mark.end))
    return blocks, tuple(objects or others)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge overlapping spans; return them in order."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found


def _is_inside(place: int, spans: Sequence[tuple[int, int]]) -> bool:
    at = bisect_right(spans, (place, place)) - 1
    return at >= 0 and spans[at][0] < place < spans[at][1]


def _without(spans: Sequence[tuple[int, int]], cut: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield spans without the stretches of `cut`; both in order."""
    edges = iter(cut)
    gap = next(edges, None)
    for start, end in spans:
        at = start
        while gap is not None and gap[0] < end:
            if gap[1] > at:
                yield at, max(gap[0], at)
                at = min(gap[1], end)
            if gap[1] > end:
                break
            gap = next(edges, None)
        yield at, end


def _joined(text: str, spans: Sequence[tuple[int, int]] | Iterator[tuple[int, int]]) -> str:
    return "".join(text[start:end] for start, end in spans)


def _nesting(body: str) -> int:
    """Return the deepest nesting of brackets, ignoring strings."""
    depth = deepest = at = 0
    while at < len(body):
        piece = _PIECE.match(body, at)
        if piece is None:
            break  # JSON cannot continue here
        at = piece.end()
        if body[piece.start()] in "{[":
            depth += at - piece.start()
        elif body[piece.start()] in "}]":
            depth -= at - piece.start()
        deepest = max(deepest, depth)
    return deepest


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number of more than {MAX_DIGITS} digits")
    return int(digits)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no number of JSON")
