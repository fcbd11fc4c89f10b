"""`keeps_addresses`: detects programs whose output does not depend on the addresses of values.

Functions, iterators, exceptions and NaNs have an address in their hash or repr. It depends on the fork server that
runs the call and on earlier calls. An arithmetic program seldom needs them as values, so this module accepts few uses:
a function may be called, or passed to a callee that calls and drops it (`map`, `key=`); an iterator must be consumed
where it is created; a set may hold integers and texts, but no value that can be a NaN.

It reads the tokens of the text and does not parse it, because a model wrote the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<skip>[ \t\f]+|\#[^\n\r]*)
    |(?P<line>\r?\n|\r|;)
    |(?P<string>[A-Za-z]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''
        |"(?:\\.|[^"\\\n\r])*"|'(?:\\.|[^'\\\n\r])*'))
    |(?P<number>0[xXbBoO]\w+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d[\d_]*)?[jJ]?)
    |(?P<name>[A-Za-z_]\w*)
    |(?P<op>\*\*|//|:=|->|[=!<>]=|[-+*/%&|^~<>=(){}\[\],:.!])""",
    re.VERBOSE | re.DOTALL,
)
# fmt: off
_FUNCTIONS = {
    "abs", "all", "any", "ascii", "bin", "callable", "chr", "divmod", "hex", "input", "isinstance", "issubclass",
    "iter", "len", "max", "min", "next", "oct", "ord", "pow", "print", "repr", "round", "sorted", "sum"
}
_MAKERS = {"map", "filter", "zip", "enumerate", "reversed", "iter"}
"""Callables that return an iterator."""
ITERTOOLS = {
    "chain", "product", "permutations", "combinations",
    "combinations_with_replacement", "islice", "accumulate", "starmap", "takewhile", "dropwhile", "filterfalse",
    "compress", "pairwise", "zip_longest", "cycle", "count", "repeat"
}
"""Callables of `itertools` that return an iterator, where the program imports it."""
_USERS = {
    "list", "tuple", "set", "frozenset", "dict", "sum", "max", "min", "any", "all", "sorted", "next", "join", "extend",
    "update", "union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "fromkeys",
    "prod", "fsum",
} | (_MAKERS | ITERTOOLS) - {"count", "repeat"}
"""Callables that consume an iterator in their arguments, or keep it inside another."""
_CALLERS = {"map", "filter", "accumulate", "starmap", "takewhile", "dropwhile", "filterfalse"}
"""Callables that call a function in their arguments."""
_KEYED = {"sorted", "max", "min", "sort"}
DATA = {"pi", "e", "tau", "inf", "nan", "infj", "nanj", "real", "imag", "numerator", "denominator", "args"}
"""Attributes and importable names that are not functions."""
EXACT = {"gcd", "lcm", "comb", "perm", "factorial", "isqrt", "floor", "ceil", "prod"}
"""Functions of `math` that return no NaN for integers."""
_INEXACT = {"inf", "nan", "float", "complex", "pow", "except"}
_EXCEPTIONS = ("Error", "Exception", "Iteration")
_OTHER_FLOWS = {"async", "await", "yield", "groupby", "tee", "match"}
# fmt: on
_CLOSES = {")": "(", "]": "[", "}": "{"}


@dataclass(slots=True)
class Imports:
    """The names that a program imports."""

    modules: set[str] = field(default_factory=set)
    """Names bound to modules."""
    names: set[str] = field(default_factory=set)
    """Names imported from modules."""
    is_exact: bool = True
    """True when no imported name returns a NaN for integers."""


@dataclass(slots=True)
class _Bracket:
    kind: str
    callee: str
    """Name before a `(`; empty for none."""
    start: int
    """Index of the first token of the callee, or of the bracket itself."""
    has_colon: bool = False
    has_for: bool = False


def keeps_addresses(code: str, imports: Imports) -> bool:
    """Return whether no output of the program can depend on an address.

    Conservative: it may return False for a program that keeps no address, never True for one that does.

    Args:
        code: the program without its import statements.
        imports: the names that those statements import.

    >>> [keeps_addresses(code, Imports()) for code in ("print(len([1]))", "print(len)", "print({*map(int, '12')})")]
    [True, False, True]
    """
    tokens = _tokens(code)
    return tokens is not None and _Reading(tokens, imports).is_fine()


def _tokens(code: str) -> list[str] | None:
    """Return the tokens, texts as '""' and lines as a newline; None when the text cannot be tokenised."""
    found: list[str] = []
    position = depth = 0
    while position < len(code):
        token = _TOKEN.match(code, position)
        if token is None:
            return None
        position = token.end()
        kind, text = token.lastgroup, token.group()
        if kind == "string":
            inner = _tokens_of_text(text)
            if inner is None:
                return None
            found += inner
        elif kind == "line":
            found += ["\n"] if depth == 0 else []
        elif kind != "skip":
            depth += (text in "([{") - (text in ")]}")
            found.append(text)
    return found


def _tokens_of_text(text: str) -> list[str] | None:
    """Return a text as one token; for an f-string, add its expressions in parentheses."""
    prefix = re.match(r"[A-Za-z]*", text)
    if prefix is None or "f" not in prefix.group().lower():
        return ['""']
    found = ['""']
    for part in re.findall(r"\{([^{}]*)\}|([{}])", text.replace("{{", "").replace("}}", "")):
        inner = (
            _tokens(part[0]) if not part[1] else None
        )  # braces inside braces: another field gives the width of this one
        if inner is None:
            return None
        found += ["+", "(", *_without_format(inner), ")"]
    return found


def _without_format(tokens: list[str]) -> list[str]:
    depth = 0
    for number, token in enumerate(tokens):
        depth += (token in "([{") - (token in ")]}")
        if token == ":" and depth == 0:
            return tokens[:number]
    return tokens


class _Reading:
    """One pass over the tokens of a program."""

    def __init__(self, tokens: list[str], imports: Imports) -> None:
        self.tokens = tokens
        self.modules = imports.modules
        self.is_exact = imports.is_exact
        self.has_set = self.has_view = False
        self.brackets: list[_Bracket] = []
        own = {self.at(k + 1) for k, token in enumerate(tokens) if token == "def"}
        own |= {
            self.at(k - 2) for k, token in enumerate(tokens) if token == "lambda" and self._names_lambda(k)
        }
        self.redefines = bool(own & (_FUNCTIONS | _MAKERS | imports.modules | imports.names))
        self.makers = _MAKERS | (imports.names & ITERTOOLS)
        self.users, self.callers, self.keyed = _USERS - own, _CALLERS - own, _KEYED - own
        self.functions = _FUNCTIONS | own | (imports.names - DATA)

    def at(self, index: int) -> str:
        return self.tokens[index] if 0 <= index < len(self.tokens) else "\n"

    def is_fine(self) -> bool:
        if self.redefines or not _OTHER_FLOWS.isdisjoint(self.tokens):
            return False
        if not all(self._is_token_fine(k, token) for k, token in enumerate(self.tokens)):
            return False
        if self.has_view and not {"&", "|", "^", "-"}.isdisjoint(self.tokens):
            self.has_set = True
        return self.is_exact or not self.has_set

    def _is_token_fine(self, k: int, token: str) -> bool:
        if token in "([{":
            self._open(k, token)
        elif token in ")]}":
            return self._close(k, token)
        elif token[0].isdigit() or (token[0] == "." and len(token) > 1):
            self.is_exact &= token.replace("_", "").isdigit()
        elif token[0].isalpha() or token[0] == "_":
            return self._is_name_fine(k, token)
        else:
            self._note(k, token)
        return True

    def _note(self, k: int, token: str) -> None:
        if token == ":" and self.brackets:
            self.brackets[-1].has_colon = True
        elif token == "/":
            self.is_exact = False
        elif token == "**":
            self.is_exact &= self.at(k + 1).isdigit()

    def _open(self, k: int, token: str) -> None:
        before = self.at(k - 1)
        is_call = token == "(" and (before[0].isalpha() or before[0] == "_") and before not in _WORDS_BEFORE
        start = k - 1 if is_call else k
        while is_call and self.at(start - 1) == "." and self.at(start - 2)[0].isalnum():
            start -= 2
        self.brackets.append(_Bracket(token, before if is_call else "", start))

    def _close(self, k: int, token: str) -> bool:
        if not self.brackets or self.brackets[-1].kind != _CLOSES[token]:
            return False
        bracket = self.brackets.pop()
        if bracket.kind == "{" and not bracket.has_colon and self.at(k - 1) != "{":
            self.has_set = True
        is_generator = bracket.kind == "(" and bracket.has_for
        return not is_generator or bracket.callee in self.users or self._is_used_up(bracket.start)

    def _is_name_fine(self, k: int, name: str) -> bool:
        before, after = self.at(k - 1), self.at(k + 1)
        self._note_name(name, before)
        if name == "lambda":
            return self._is_handed_to_caller(k) or self._names_lambda(k)
        if before == ".":
            return self._is_attribute_fine(k, name, after)
        if name in self.modules:
            return after == "."
        if name in self.makers:
            return after == "(" and self._is_used_up(k)
        if name in self.functions or name in _KEYED:
            is_named = before == "def" or (after == "=" and self._names_lambda(k + 2))
            return after == "(" or is_named or self._is_handed_to_caller(k)
        return True

    def _note_name(self, name: str, before: str) -> None:
        if name == "for" and self.brackets:
            self.brackets[-1].has_for = True
        elif name in ("set", "frozenset"):
            self.has_set = True
        elif name in ("keys", "items") and before == ".":
            self.has_view = True
        elif name in _INEXACT or name.endswith(_EXCEPTIONS) or (name == "values" and before == "."):
            self.is_exact = False

    def _is_attribute_fine(self, k: int, name: str, after: str) -> bool:
        owner = self.at(k - 2)
        if owner in self.modules:
            self.is_exact &= name in EXACT | ITERTOOLS
        if name in DATA:
            return True
        if after != "(":
            return self._is_handed_to_caller(k - 2) and after in (",", ")") and owner.isidentifier()
        return not (owner in self.modules and name in ITERTOOLS) or self._is_used_up(k - 2)

    def _names_lambda(self, k: int) -> bool:
        """Return whether token k is the lambda of a statement `name = lambda`."""
        return (self.at(k), self.at(k - 1), self.at(k - 3)) == ("lambda", "=", "\n")

    def _is_handed_to_caller(self, k: int) -> bool:
        """Return whether token k is an argument of a callee that calls and drops it."""
        if not self.brackets or self.brackets[-1].kind != "(":
            return False
        callee, before = self.brackets[-1].callee, self.at(k - 1)
        if before == "=" and self.at(k - 2) == "key":
            return callee in self.keyed
        return callee in self.callers and before in ("(", ",")

    def _is_used_up(self, k: int) -> bool:
        """Return whether the iterator whose expression begins at token k is consumed there."""
        before = self.at(k - 1)
        if before == "in":
            return True
        if before == "=":
            return self._unpacks(k - 1)
        brackets = self.brackets
        if before == "*":
            return k >= 2 and self.at(k - 2) in ("(", "[", "{", ",")
        if not brackets or brackets[-1].kind != "(":
            return False
        inside = brackets[-1]
        return inside.callee in self.users and before in ("(", ",")

    def _unpacks(self, k: int) -> bool:
        """Return whether `a, b =`, with names only, precedes token k."""
        names = []
        while self.at(k - 1) != "\n":
            k -= 1
            names.append(self.at(k))
        return len(names) > 2 and all(
            (name.isidentifier() if number % 2 == 0 else name == ",") for number, name in enumerate(names)
        )


_WORDS_BEFORE = {
    "and", "or", "not", "in", "is", "if", "elif", "else", "while", "return", "for", "assert", "lambda", "del",
    "raise", "case", "with", "as",
}  # fmt: skip
"""Tokens that may precede a parenthesis that is no call."""
