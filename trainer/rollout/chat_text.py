"""Text that knows which of it may hold control tokens. No torch.

A plain string is foreign: a problem, a tool's output, a document of a function. Its characters are text, whatever they
spell. What the conversation itself writes is `live`; `+` keeps both apart, and anything else that makes a new string,
an f-string say, makes a foreign one. So a caller that forgets loses a control token where it is seen at once, and never
lets one in.
"""

from __future__ import annotations

from collections.abc import Iterable

from verifier.turn import tags


class ChatText(str):
    r"""A string with stretches that are not to be read as control tokens.

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
    """Text of the conversation itself: its control tokens are read."""
    return ChatText(text)


def foreign_spans(text: str) -> tuple[tuple[int, int], ...]:
    """Stretches of a text that are foreign; a plain string is so as a whole."""
    return text.foreign if isinstance(text, ChatText) else ((0, len(text)),)


def turn_text(text: str) -> ChatText:
    """A turn as a policy writes it: live are its tags, save inside the JSON of a call; special tokens are text.

    >>> turn_text("a</reason><|im_end|>").foreign
    ((0, 1), (10, 20))
    """
    edges = [0, *(place for tag in tags(text) for place in (tag.start, tag.end)), len(text)]
    return ChatText(text, zip(edges[::2], edges[1::2], strict=True))


def _shifted(text: str, by: int) -> list[tuple[int, int]]:
    return [(start + by, end + by) for start, end in foreign_spans(text)]
