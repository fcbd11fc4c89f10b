"""`tokens_of`: cuts the text of an expression into tokens: numbers, letters, commands, signs."""

from __future__ import annotations

import re
from dataclasses import dataclass

from verifier.budget import TooHeavy, spend

MAX_TOKENS = 4000

FUNCTIONS = frozenset(
    {"sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "arccot", "sinh", "cosh", "tanh"}
    | {"ln", "log", "exp", "sqrt", "abs", "floor", "ceil", "gcd", "lcm", "max", "min", "binom"}
)
GREEK = frozenset(
    {"alpha", "beta", "gamma", "delta", "epsilon", "varepsilon", "zeta", "eta", "theta", "vartheta", "iota"}
    | {"kappa", "lambda", "mu", "nu", "xi", "rho", "sigma", "tau", "upsilon", "phi", "varphi", "chi", "psi"}
    | {"omega", "triangle", "Gamma", "Delta", "Theta", "Lambda", "Sigma", "Phi", "Psi", "Omega", "ell"}
)
_WORDS = FUNCTIONS | {
    "pi",
    "infinity",
    "inf",
    "oo",
    "theta",
    "alpha",
    "beta",
    "gamma",
    "lambda",
    "phi",
    "omega",
}

_TOKEN = re.compile(
    r"(?P<space>\s+)|(?P<number>(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?(?:[eE][+-]?\d+(?!\w))?|\.\d+)"
    r"|(?P<text>\\text\s*\{[^{}]*\})|(?P<command>\\[A-Za-z]+)|(?P<escaped>\\[{}|])|(?P<letter>[A-Za-z])|(?P<symbol>.)",
    re.DOTALL,
)
_LETTERS = re.compile(r"[A-Za-z]{2,}")


@dataclass(frozen=True, slots=True)
class Token:
    kind: str
    text: str
    spaced: bool


_BRACKET = re.compile(r"\\.|[(){}]", re.DOTALL)


def flatten_brackets(text: str) -> str:
    r"""Drop each pair of parentheses or braces that directly encloses another pair of its kind.

    Hundreds of nested pairs must not fail, and stripping them one by one would take quadratic time.

    >>> flatten_brackets("(((5)))+((a)(b))"), flatten_brackets(r"{{{\{5\}}}}")
    ('(5)+((a)(b))', '{\\{5\\}}')
    """
    if "((" not in text and "{{" not in text:
        return text
    spend(len(text))
    partner: dict[int, int] = {}
    open_at: list[int] = []
    for match in _BRACKET.finditer(text):
        char, at = match.group(), match.start()
        if char in "({":
            open_at.append(at)
        elif char in ")}":
            if not open_at or text[open_at[-1]] != {")": "(", "}": "{"}[char]:
                return text
            partner[open_at.pop()] = at
    if open_at:
        return text
    idle = {at for at in partner if text[at] == text[at + 1] and partner.get(at + 1) == partner[at] - 1}
    drop = idle | {partner[at] for at in idle}
    return "".join(char for at, char in enumerate(text) if at not in drop)


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of an expression without spaces; known words without a backslash are commands."""
    spend(len(text) // 2)
    tokens: list[Token] = []
    spaced = False
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None
        assert match.lastgroup is not None
        kind, piece = match.lastgroup, match.group()
        if kind == "letter":
            run = _LETTERS.match(text, at)
            if run is not None and run.group() in _WORDS:
                kind, piece = "command", "\\" + run.group()
                match = run
        at = match.end()
        if kind == "space":
            spaced = True
            continue
        tokens.append(Token(kind, piece, spaced))
        spaced = False
        if len(tokens) > MAX_TOKENS:
            raise TooHeavy("too long")
    return tokens
