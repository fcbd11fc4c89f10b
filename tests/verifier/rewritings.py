"""Seeded rewritings, one-symbol changes and damage of real answers, for the tests that try thousands of them."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

FILES = ("math_train.jsonl", "math_test.jsonl")


def golds(folder: Path) -> list[str]:
    """Every gold of MATH that is not empty, in order."""
    rows = [json.loads(line) for file in FILES for line in (folder / file).read_text().splitlines()]
    return [row["answer"] for row in rows if row["answer"].strip()]


# --- rewritings: the value stays -------------------------------------------------------------------------

_INTEGER = re.compile(r"-?\d{1,15}")
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d+)?|\d*\\frac\{\d+\}\{\d+\})")
_NO_NAME = re.compile(r"[=<>,]|\\(?:text|mbox|le|ge|ne|in|cup|cap|infty|pm|circ|%|\$)|^\\\{|%|\$|\\!|:")


def _spaced(gold: str, draw: random.Random) -> str:
    blank = draw.choice([" ", "  ", "\n", "\\ ", "\\,", "\\;", "~"])
    return re.sub(r"(?<=[^\\\s])([+*/=])(?=[^\s])", lambda sign: f"{blank}{sign.group()}{blank}", gold)


def _tighter(gold: str, draw: random.Random) -> str:
    return re.sub(r"(?<=[+=,]) +| +(?=[+=])", "", gold)


def _fractions(gold: str, draw: random.Random) -> str:
    return gold.replace("\\frac", draw.choice(["\\dfrac", "\\tfrac", "\\cfrac"]))


def _over(gold: str, draw: random.Random) -> str:
    return re.sub(r"\\frac\{(\w+)\}\{(\w+)\}", r"{\1 \\over \2}", gold)


def _big_brackets(gold: str, draw: random.Random) -> str:
    size = draw.choice([("\\left", "\\right"), ("\\bigl", "\\bigr"), ("\\Big", "\\Big")])
    if "\\left" in gold or "\\begin" in gold or gold.count("(") != gold.count(")") or "[" in gold:
        return gold
    return gold.replace("(", size[0] + "(").replace(")", size[1] + ")")


def _times(gold: str, draw: random.Random) -> str:
    return gold.replace("\\cdot", "\\times") if "\\cdots" not in gold else gold


def _braced_powers(gold: str, draw: random.Random) -> str:
    return re.sub(r"\^(\w)(?!\w)", r"^{\1}", gold)


def _wrapped(gold: str, draw: random.Random) -> str:
    frames = [
        "${}$",
        "\\({}\\)",
        "\\[{}\\]",
        "{{{}}}",
        "\\displaystyle {}",
        " {} ",
        "{}.",
        "$${}$$",
        "{{{{{}}}}}",
    ]
    return draw.choice(frames).format(gold)


def _coloured(gold: str, draw: random.Random) -> str:
    frame = draw.choice(["\\color{red}{%s}", "\\textcolor{blue}{%s}", "\\underline{%s}", "{\\color{red} %s}"])
    return frame % gold


def _led(gold: str, draw: random.Random) -> str:
    return draw.choice(["\\text{The answer is }%s", "\\text{Answer: }%s", "= %s", "\\therefore %s"]) % gold


def _named(gold: str, draw: random.Random) -> str:
    if gold.startswith("\\begin{") and gold.count("\\begin") == 1:
        return draw.choice(["A", "\\mathbf{M}", "B^{-1}"]) + f" = {gold}"
    if (
        _NO_NAME.search(gold)
        or not re.search(r"\d", gold)
        or re.search(r"(?<![A-Za-z\\])[a-zA-Z](?![A-Za-z])", gold)
    ):
        return gold
    return f"{draw.choice(['x', 'k', 'f(3)', 'P(X=1)', 'S_n', 'a_{10}', 'N', 'AB'])} = {gold}"


def _chained(gold: str, draw: random.Random) -> str:
    if not _INTEGER.fullmatch(gold):
        return gold
    part = draw.randint(2, 99)
    steps = [
        f"{int(gold) - part} + {part}",
        f"\\frac{{{int(gold) * part}}}{{{part}}}",
        f"{int(gold) * part} / {part}",
    ]
    name = draw.choice(["", "n = ", "m + n = ", "f(2) = ", "P(X=1) = "])
    return f"{name}{draw.choice(steps)} = {gold}"


def _reordered(gold: str, draw: random.Random) -> str:
    inner = gold[2:-2] if gold.startswith("\\{") and gold.endswith("\\}") else gold
    if not re.fullmatch(
        r"(?:[^,()\[\]{}\\]|\\sqrt\{\d+\}|\\frac\{\d+\}\{\d+\})+(?:,(?!\d{3}\b)(?:[^,()\[\]{}\\]|"
        r"\\sqrt\{\d+\}|\\frac\{\d+\}\{\d+\})+)+",
        inner,
    ):
        return gold
    members = [member.strip() for member in inner.split(",")]
    draw.shuffle(members)
    line = ", ".join(members)
    return f"\\{{{line}\\}}" if inner is not gold or draw.random() < 0.3 else line


def _thousands(gold: str, draw: random.Random) -> str:
    if not re.fullmatch(r"-?\d{4,15}", gold):
        return gold
    return re.sub(r",", draw.choice([",", "{,}", ",\\!"]), f"{int(gold):,}")


def _full_width(gold: str, draw: random.Random) -> str:
    wide = {digit: chr(0xFF10 + int(digit)) for digit in "0123456789"} | {
        "(": "\uff08",
        ")": "\uff09",
        ",": "\uff0c",
    }
    return "".join(wide.get(char, char) for char in gold) if "\\" not in gold else gold


def _decimal(gold: str, draw: random.Random) -> str:
    return f"{gold}.0" if re.fullmatch(r"-?\d{1,8}", gold) else gold


def _aligned(gold: str, draw: random.Random) -> str:
    if "&" in gold or "\\\\" in gold or _NO_NAME.search(gold):
        return gold
    return f"\\begin{{aligned}} {gold} \\end{{aligned}}"


REWRITINGS: tuple[Callable[[str, random.Random], str], ...] = (
    _spaced, _tighter, _fractions, _over, _big_brackets, _times, _braced_powers, _wrapped, _coloured, _led, _named,
    _chained, _reordered, _thousands, _full_width, _decimal, _aligned,
)  # fmt: skip
_OUTER = (_coloured, _led, _named, _chained, _aligned, _wrapped)
"""Decorations of a whole answer; at most one of these, and last."""


def rewritings(answers: list[str], count: int, seed: int) -> Iterator[tuple[str, str]]:
    """`count` pairs of an answer and another spelling of it, one to three rewritings away."""
    draw = random.Random(seed)
    made = 0
    while made < count:
        gold = draw.choice(answers)
        steps = draw.sample([step for step in REWRITINGS if step not in _OUTER], draw.randint(0, 2))
        text = gold
        for step in [*steps, draw.choice(_OUTER)]:
            text = step(text, draw)
        if text != gold:
            made += 1
            yield gold, text


# --- one-symbol changes: the value does not stay, or only the notation changed ----------------------------

_CLASSES = ("0123456789", "+-", "()[]", "<>=", "xyzabcmnk", ",;.", "^_", "*/")


def one_symbol_changes(answers: list[str], count: int, seed: int) -> Iterator[tuple[str, str]]:
    """Pairs that differ by one replaced, inserted or deleted symbol."""
    draw = random.Random(seed)
    for _ in range(count):
        gold = draw.choice(answers)
        at = draw.randrange(len(gold))
        group = next((group for group in _CLASSES if gold[at] in group), "0123456789+-")
        kind = draw.random()
        if kind < 0.6:
            changed = gold[:at] + draw.choice([char for char in group if char != gold[at]]) + gold[at + 1 :]
        elif kind < 0.8:
            changed = gold[:at] + draw.choice("0123456789-+!'") + gold[at:]
        else:
            changed = gold[:at] + gold[at + 1 :]
        if changed.strip():
            yield gold, changed


# --- damage -----------------------------------------------------------------------------------------------

_BROKEN = r"""
{ } ( ) \ \frac \frac{ ^ _ \left \right) \begin{pmatrix} \end{pmatrix} & \\ $ \boxed{ \text{ <answer> </answer> <think>
</think> ! \sqrt[ \sum_{i=1}^{9} \sum_{i=1}^{2000} ^{9^{9^9}} 1e999999 | \overline{ \pm \cup ,, .. : = == \color{ \over
\choose _{ Answer: <|im_end|>
"""
_DEBRIS = [*_BROKEN.split(), "9" * 4400, "\x00", "\ud800", "\u221a", "\uff08", "\u200b"]


def damaged(texts: list[str], count: int, seed: int) -> Iterator[str]:
    """Texts with pieces doubled, cut, swapped, repeated hundreds of times, or broken by debris."""
    draw = random.Random(seed)
    for _ in range(count):
        text = draw.choice(texts)
        for _ in range(draw.randint(1, 6)):
            low, high = sorted(draw.randrange(len(text) + 1) for _ in range(2))
            kind = draw.randrange(6)
            if kind == 0:
                text = text[:low] + text[high:]
            elif kind == 1:
                text = text[:low] + text[low:high] * draw.choice([2, 30, 400]) + text[high:]
            elif kind == 2:
                text = text[:low] + draw.choice(_DEBRIS) + text[low:]
            elif kind == 3:
                text = text[:low] + draw.choice(_DEBRIS) * draw.choice([2, 50, 3000]) + text[high:]
            elif kind == 4:
                text = text[high:] + text[low:high] + text[:low]
            else:
                text = text[:low] + "".join(draw.sample(text[low:high], high - low)) + text[high:]
            text = text[:300_000]
        yield text
