r"""`extract`: finds the answer in sampled text, in linear time and without regular expressions that backtrack.

It searches only answer text (`verifier.turn`: no reasoning, no call, no quoted tool response). The order is: the last
`\boxed` or `\fbox`; the content of the last `<answer>`; the last line 'Answer:'. A bare last number is never an
answer, because that fallback rewards prose.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from verifier.answers.letters import answer_line, letter_of, statement
from verifier.graders.policy import MAX_ANSWER_CHARS, Require
from verifier.turn import TurnText, read_turn

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_ANSWER_LINE = re.compile(r"(?i)(?<![a-z])answer(?:\s++is)?[\s*_]{0,4}[:\uff1a]")
_MARKDOWN = re.compile(r"\*\*|__|`")
_PROSE = re.compile(r"(?i)\b(?:is|are)\b")
_INLINE = re.compile(r"\$([^$]{1,500})\$|\\\((.{1,500}?)\\\)")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_UNCLOSED_CHARS = 200
_END_MARK = re.compile(r"<\|[a-z_]{1,40}\|>\Z")
_LONGEST_END_MARK = 44


@dataclass(frozen=True, slots=True, kw_only=True)
class Extraction:
    """The answer as written in the text, and where it was found."""

    answer: str | None
    """None when the text holds no answer; never an empty string."""
    rule: str
    """box, unclosed box, answer tag, answer line; or the reason for no answer."""
    num_boxes: int = 0
    """Boxes outside the reasoning; several boxes are reported as possible guessing."""


def extract(
    text: str, *, require: Require = Require.ANY, truncated: bool = False, opened: bool = False
) -> Extraction:
    r"""Find the answer of one response.

    Args:
        text: what the policy sampled in its last turn.
        require: `answer_box` accepts only a box inside a closed `<answer>` (paper section 2.1).
        truncated: the response was cut at the token limit, so an unclosed box is not read.
        opened: the prompt opened the reasoning, so a turn that never closes it has no answer text.

    >>> extract(r"<reason>maybe \boxed{4}</reason><answer>It is \boxed{5}.</answer>").answer
    '5'
    >>> extract("There are 5 apples and 7 pears.").rule
    'no answer marker'
    >>> extract(r"so \boxed{5}", require=Require.ANSWER_BOX).rule
    'no closed <answer>'
    """
    turn = read_turn(text, opened=opened)
    answer_text = turn.answer_text
    if require is Require.ANSWER_BOX:
        if not turn.answers:
            return Extraction(answer=None, rule="no closed <answer>")
        found = _last_box(turn.answers[-1], truncated=True)
        return found or Extraction(answer=None, rule="no box inside <answer>")
    found = _last_box(answer_text, truncated=truncated)
    if found is not None:
        return found
    block = _last_answer_block(turn, must_close=truncated)
    if block is not None:
        return _nonempty(_plain(block), "answer tag")
    return _answer_line(answer_text)


def extract_letter(text: str) -> Extraction:
    r"""Find the letter of a multiple-choice response: the last 'Answer: X', else the last box, else a closing sentence.

    A list or a hedge is reported as no letter. A later box replaces it.

    >>> extract_letter("Answer: B").answer, extract_letter(r"so \boxed{\text{(D)}}").answer
    ('B', 'D')
    >>> extract_letter("It is A or B").answer is None
    True
    """
    turn = read_turn(text)
    answer_text = turn.answer_text
    named, at = answer_line(answer_text)
    if named.letter is not None:
        return Extraction(answer=named.letter, rule="answer line")
    found = _last_box(answer_text, truncated=True)
    if named.is_open and max(answer_text.rfind("\\boxed"), answer_text.rfind("\\fbox")) < at:
        return Extraction(answer="several options", rule="answer line")
    if found is None or found.answer is None:
        block = _last_answer_block(turn, must_close=False)
        found = _nonempty(_plain(block), "answer tag") if block is not None else found
    if found is not None and found.answer is not None:
        return replace(found, answer=letter_of(found.answer).letter or found.answer)
    stated = statement(answer_text)
    if stated.letter is not None or stated.is_open:
        return Extraction(answer=stated.letter or "several options", rule="statement")
    if at >= 0:
        return Extraction(answer="no option", rule="answer line")
    return Extraction(answer=None, rule="no answer marker" if found is None else found.rule)


def without_end_marks(text: str) -> str:
    r"""Return a sampled turn without the special tokens that end it.

    >>> without_end_marks("Answer: 42<|im_end|>\n")
    'Answer: 42'
    """
    while True:
        shown = text.rstrip()
        mark = _END_MARK.search(shown, max(0, len(shown) - _LONGEST_END_MARK))
        if mark is None:
            return text
        text = shown[: mark.start()]


def _last_box(text: str, *, truncated: bool) -> Extraction | None:
    at = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    if at < 0:
        return None
    num_boxes = text.count("\\boxed") + text.count("\\fbox")
    match = _BOX.match(text, at)
    if match is None:
        return None
    start = len(text) - len(text[match.end() :].lstrip())
    if start < len(text) and text[start] == "{":
        content = balanced(text, start)
        if content is None:
            if truncated:
                return Extraction(answer=None, rule="box not closed at the limit", num_boxes=num_boxes)
            line = text[start + 1 : start + 1 + _UNCLOSED_CHARS].split("\n", 1)[0]
            return _nonempty(line.strip().rstrip("$").strip(), "unclosed box", num_boxes)
        return _nonempty(content.strip(), "box", num_boxes)
    token = re.match(r"[^\s$]{1,50}", text[start:])
    return _nonempty(token.group().rstrip(".,;") if token else "", "box without braces", num_boxes)


def balanced(text: str, start: int) -> str | None:
    r"""Return the content of the brace group that opens at `start`; None if it never closes. Skips `\{` and `\}`.

    >>> balanced(r"{a{b}\}c} d", 0)
    'a{b}\\}c'
    """
    depth = 0
    for match in _BRACE.finditer(text, start):
        if match.group() == "{":
            depth += 1
        elif match.group() == "}":
            depth -= 1
            if depth == 0:
                return text[start + 1 : match.start()]
    return None


def _last_answer_block(turn: TurnText, *, must_close: bool) -> str | None:
    """Return the last closed block; without one, the text behind the last opening tag."""
    if turn.answers:
        return turn.answers[-1]
    start = turn.answer_text.rfind("<answer>")
    return None if must_close or start < 0 else turn.answer_text[start + len("<answer>") :]


def _answer_line(text: str) -> Extraction:
    last = None
    for match in _ANSWER_LINE.finditer(text):
        last = match
    if last is None:
        return Extraction(answer=None, rule="no answer marker")
    lines = [_plain(line) for line in text[last.end() :].split("\n", 6)[:6]]
    return _nonempty(_without_prose(next((line for line in lines if line), "")), "answer line")


def _without_prose(line: str) -> str:
    """Return the formula of a sentence: its last `$..$`, or the text behind its last 'is'. Other lines stay whole.

    >>> _without_prose("The final answer is $(0, 1)$. I hope it is correct."), _without_prose("x + 1")
    ('(0, 1)', 'x + 1')
    """
    if len(line) > MAX_ANSWER_CHARS or not _PROSE.search(line):
        return line
    spans = _INLINE.findall(line)
    if spans:
        return next(span for span in spans[-1] if span).strip()
    sentence = re.split(r"\.(?:\s|$)", line, maxsplit=1)[0]
    return re.split(r"\bis\b", sentence)[-1].strip()


def _plain(text: str) -> str:
    return _MARKDOWN.sub("", text).strip().rstrip(".").strip()


def _nonempty(answer: str, rule: str, num_boxes: int = 0) -> Extraction:
    if not answer:
        return Extraction(answer=None, rule=f"empty {rule}", num_boxes=num_boxes)
    return Extraction(answer=answer, rule=rule, num_boxes=num_boxes)
