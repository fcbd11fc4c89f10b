r"""`read_turn`: divides an assistant turn into reasoning, calls and answer text, for training and evaluation alike.

Calls and answers count outside the reasoning only. A call is read as JSON from its opening tag on, so no tag inside a
JSON string means anything. What merely speaks of the protocol is text. The policy in full: docs/verifier.md. One pass,
linear in the text whatever it holds; no exception but `CallUnread`.
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
"""Brackets within brackets of a call. The limit of the interpreter depends on who calls; this one does not."""
MAX_DIGITS = 4300
"""Of a whole number in a call."""

_TAG = re.compile(r"<(/?)(think|thinking|reason|tool_call|tool_response|answer)>")
_REASONING = frozenset({"think", "thinking", "reason"})
_OBJECT = re.compile(r"\s*+\{")
_PIECE = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{\[]++|[}\]]++|[^"{}\[\]<\\]++', re.DOTALL)
"""A JSON string, a run of brackets, or what else may stand in JSON: never `<` or a backslash."""
_ANSWER = re.compile("</?answer>")
_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")


class CallUnread(ValueError):
    """The text between the tags is no JSON that a call may hold; the message names the fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallText:
    """One place where a turn calls a tool."""

    body: str | None
    """Between the tags; None when the closing tag is missing."""
    is_object: bool
    """It begins as a JSON object."""

    def value(self) -> Any:
        """The JSON of the call; of equal keys the last counts, line breaks inside strings are read.

        Raises:
            CallUnread: it is none, or holds NaN, a lone surrogate, more than MAX_DIGITS digits or MAX_NESTING brackets.
        """
        if self.body is None:
            raise CallUnread("</tool_call> is missing")
        if _nesting(self.body) > MAX_NESTING:
            raise CallUnread(f"not JSON: nested more than {MAX_NESTING} deep")
        try:
            value = json.loads(self.body, strict=False, parse_int=_integer, parse_constant=_refuse)
            # A lone surrogate, valid in JSON, would reach neither the sandbox nor the disk.
            json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, RecursionError) as error:
            raise CallUnread(f"not JSON: {error}") from None
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnText:
    """A turn taken apart."""

    spoken: str
    """Outside the reasoning; calls are in it."""
    said: str
    """Outside the reasoning, the calls and quoted tool responses: where an answer may stand."""
    calls: tuple[CallText, ...]
    """Calls outside the reasoning, answers and quoted tool responses, in order; see `_calls`."""
    answers: tuple[str, ...]
    """Contents of the closed `<answer>` blocks in `said`."""

    @property
    def num_answers(self) -> int:
        """`<answer>` openings in `said`."""
        return self.said.count("<answer>")

    @property
    def gives_answer(self) -> bool:
        """It holds a closed `<answer>` or a box. Then a call that cannot be read is text about calls."""
        return bool(self.answers) or _BOX.search(self.said) is not None


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag that stands outside the JSON of a call."""

    name: str
    closes: bool
    start: int
    end: int
    value_end: int | None = None
    """For an opening `<tool_call>` with a JSON object behind it: where that ends, or where its reading failed."""
    is_whole: bool = False
    """That object ends."""

    @property
    def is_object(self) -> bool:
        return self.value_end is not None


def read_turn(text: str, *, opened: bool = False) -> TurnText:
    r"""Take one turn apart.

    Args:
        text: what the policy sampled in one turn.
        opened: the prompt ends in an opening `<reason>`, so the text begins inside the reasoning: a turn that never
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
    heard = list(_within([mark for mark in marks if mark.name not in _REASONING], spans))
    answers, responses = _pairs(heard, "answer"), _pairs(heard, "tool_response")
    quoted = _merged([*answers, *responses])
    calls = [mark for mark in heard if mark.name == "tool_call" and not _is_inside(mark.start, quoted)]
    blocks, found = _calls(text, calls, heard)
    silent = _merged([*responses, *blocks])
    said = _joined(text, _without(spans, silent))
    return TurnText(spoken=_joined(text, spans), said=said, calls=found, answers=_answers(said))


def without_reasoning(text: str) -> str:
    """The text outside `<think>`, `<thinking>` and `<reason>` spans.

    A first tag that closes ends reasoning that began in the prompt (the pre-filled opening); a later one without an
    opening is text. An opening one that is never closed hides the rest, but inside the reasoning it is text if no
    closing tag is left for it.

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
    """Tags of the protocol in order, those inside the JSON of a call left out."""
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
    """Where the brackets that open at `start` are closed, or where none of JSON goes on; and whether they are closed.

    A string that never ends takes the rest of the text. Two attempts that overlap see strings and the space between
    them the other way round, and a `<` outside a string ends an attempt; so one that begins inside another ends at the
    next tag, and all of them together are linear.
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
    """Stretches of the text outside the reasoning; `marks` are its tags."""
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
            continue  # nothing is open any more: text
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
    """Stretches from an opening tag to its closing one, where no other tag of that name lies between."""
    named = [mark for mark in marks if mark.name == name]
    return [(one.start, two.end) for one, two in pairwise(named) if two.closes and not one.closes]


def _answers(said: str) -> tuple[str, ...]:
    marks = list(_ANSWER.finditer(said))
    return tuple(
        said[one.end() : two.start()]
        for one, two in pairwise(marks)
        if one.group() == "<answer>" and two.group() == "</answer>"
    )


def _calls(
    text: str, marks: Sequence[Tag], heard: Sequence[Tag]
) -> tuple[list[tuple[int, int]], tuple[CallText, ...]]:
    """Stretches that belong to calls, and the calls: those that begin as an object, else all that are closed.

    A tag with anything but `{` behind it is a call only where nothing else in the turn is one, and where the closing
    tag is the next tag of the protocol: `<tool_call>print(1)</tool_call>` is a call in a wrong form, 'the <tool_call>
    tag' is none.
    """
    following = {id(one): two for one, two in pairwise(heard)}
    blocks: list[tuple[int, int]] = []
    objects: list[CallText] = []
    others: list[CallText] = []
    for mark, after in zip_longest(marks, marks[1:]):
        if mark.closes:
            continue
        close = after if after is not None and after.closes else None
        if following.get(id(mark)) is not close and (mark.is_whole or not mark.is_object):
            close = None  # another tag of the protocol lies between
        if close is None and not mark.is_object:
            continue
        body = text[mark.end : close.start] if close else None
        (objects if mark.is_object else others).append(CallText(body=body, is_object=mark.is_object))
        blocks.append((mark.start, close.end if close else mark.value_end or mark.end))
    return blocks, tuple(objects or others)


def _merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those that overlap made one."""
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
    """Spans less the stretches of `cut`; both in order."""
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
    """Deepest brackets within brackets, strings left out."""
    depth = deepest = at = 0
    while at < len(body):
        piece = _PIECE.match(body, at)
        if piece is None:
            break  # no JSON goes on here
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
