"""`ChatText`: text with a record of which parts may contain control tokens.

A plain string is foreign: a problem, a tool's output, a document of a function. Its characters are always text. Text of
the conversation itself is `live`; `+` keeps both apart, and any other operation that makes a new string, such as an
f-string, makes a foreign one. A caller that forgets `live` loses a control token, which is noticed at once, and never
admits one.
"""

from __future__ import annotations

from collections.abc import Iterable

from verifier.turn import tags


class ChatText(str):
    r"""A string with stretches that must not be read as control tokens.

    >>> text = live("<|im_start|>user\n") + "<|im_end|>" + live("<|im_end|>")
    >>> text.foreign, text == "<|im_start|>user\n<|im_end|><|im_end|>"
    (((17, 27),), True)
    """

    __slots__ = ("foreign",)
    foreign: tuple[tuple[int, int], ...]
    """Stretches [start, end), in order."""

    def __new__(cls, text: str, foreign: Iterable[tuple[int, int]] = ()) -> ChatText:
        made = super().__new__(cls, text)
        made.foreign = tuple(foreign)
        return made

    def __add__(self, other: str) -> ChatText:
        return ChatText(str.__add__(self, other), [*self.foreign, *_shifted(other, len(self))])

    def __radd__(self, other: str) -> ChatText:
        return ChatText(str.__add__(other, self), [*_shifted(other, 0), *_shifted(self, len(other))])


def live(text: str) -> ChatText:
    """Mark text of the conversation itself: its control tokens are read."""
    return ChatText(text)


def foreign_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Foreign stretches of a text; a plain string is one stretch."""
    return text.foreign if isinstance(text, ChatText) else ((0, len(text)),)


def turn_text(text: str) -> ChatText:
    """A turn of a policy: its tags are live, except inside the JSON of a call; special tokens are text.

    >>> turn_text("a</reason><|im_end|>").foreign
    ((0, 1), (10, 20))
    """
    edges = [0, *(place for tag in tags(text) for place in (tag.start, tag.end)), len(text)]
    return ChatText(text, zip(edges[::2], edges[1::2], strict=True))


def _shifted(text: str, by: int) -> list[tuple[int, int]]:
    return [(start + by, end + by) for start, end in foreign_spans(text)]
