r"""`parse`: a small parser from normalised LaTeX (or calculator notation) of one expression to a tree of nodes.

It reads the notation of answers to mathematics problems and refuses the rest with `Unreadable`; the symbolic worker
may then try. Depth and size are bounded, so no input can exhaust the stack.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from verifier.budget import TooHeavy, spend
from verifier.notation.numerals import decimal, whole
from verifier.notation.tokens import FUNCTIONS, GREEK, Token, flatten_brackets, tokens_of

MAX_DEPTH = 120

_CONSTANTS = {"pi": "pi", "infty": "inf", "infinity": "inf", "inf": "inf", "oo": "inf", "e": "e", "i": "i"}


class Unreadable(ValueError):
    """The parser does not support this notation."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation; leaves are num (value), var and const (name)."""

    op: str
    args: tuple[Node, ...] = ()
    name: str = ""
    value: Fraction = Fraction(0)

    def variables(self) -> frozenset[str]:
        own = frozenset((self.name,)) if self.op == "var" else frozenset()
        inner = frozenset().union(*(arg.variables() for arg in self.args)) if self.args else frozenset()
        return (inner - {self.name}) if self.op in ("sum", "prod") else own | inner


def parse(text: str) -> Node:
    r"""Parse one expression.

    >>> parse(r"5 \frac{3}{4}").op, parse("2x").op, parse("8!").op
    ('add', 'mul', 'fact')
    """
    parser = _Parser(tokens_of(flatten_brackets(text)))
    node = parser.expression()
    if not parser.done():
        raise Unreadable(f"unexpected {parser.peek().text!r}")
    return node


_END = Token("end", "", False)


class _Parser:
    """Recursive descent over the tokens; one method per level of binding."""

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._bars = 0

    def peek(self) -> Token:
        return self._tokens[self._at] if self._at < len(self._tokens) else _END

    def done(self) -> bool:
        return self._at >= len(self._tokens)

    def _take(self) -> Token:
        token = self.peek()
        self._at += 1
        return token

    def _accept(self, text: str) -> bool:
        if self.peek().text == text:
            self._at += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._accept(text):
            raise Unreadable(f"expected {text!r}, found {self.peek().text!r}")

    def expression(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooHeavy("nested too deep")
        terms = [self._signed_term()]
        while self.peek().text in ("+", "-"):
            terms.append(self._signed_term())
        node = terms[0] if len(terms) == 1 else Node("add", tuple(terms))
        if self.peek().text in ("\\over", "\\choose"):
            node = Node("div" if self._take().text == "\\over" else "binom", (node, self.expression()))
        self._depth -= 1
        return node

    def _signed_term(self) -> Node:
        negative = False
        while self.peek().text in ("+", "-"):
            negative ^= self._take().text == "-"
        term = self._term()
        return Node("neg", (term,)) if negative else term

    def _term(self) -> Node:
        node = self._juxtaposed()
        while True:
            if self._accept("*"):
                node = Node("mul", (node, self._signed_factor()))
            elif self._accept("/"):
                node = Node("div", (node, self._signed_factor()))
            elif self._starts_factor():
                self._refuse_digits_beside_digits(node)
                node = Node("mul", (node, self._power()))
            else:
                return node

    def _refuse_digits_beside_digits(self, before: Node) -> None:
        """Refuse `5 3` and `5{3}`, which display as the digits 53 or as two numbers, never as a product."""
        ahead = self._tokens[self._at : self._at + 2]
        is_number = ahead[0].kind == "number" or (
            ahead[0].text == "{" and len(ahead) == 2 and ahead[1].kind == "number"
        )
        last = self._tokens[self._at - 1]
        ends_in_digits = before.op == "num" and (last.kind == "number" or before.name == "based")
        if is_number and (ends_in_digits or last.text in ("\\pct", "\\deg")):
            raise Unreadable("two numbers side by side")

    def _signed_factor(self) -> Node:
        negative = False
        while self.peek().text in ("+", "-"):
            negative ^= self._take().text == "-"
        factor = self._power()
        return Node("neg", (factor,)) if negative else factor

    def _juxtaposed(self) -> Node:
        """Parse the first factor of a term; an integer before a plain fraction is a mixed number."""
        first = self._power()
        if first.op == "num" and first.value.denominator == 1 and first.name == "int":
            mixed = self._mixed_part()
            if mixed is not None:
                return Node("add", (first, mixed))
        return first

    def _mixed_part(self) -> Node | None:
        start = self._at
        if self.peek().text == "\\frac" and self._is_plain_fraction():
            part = self._power()
            if part.op == "div" and all(arg.op == "num" and arg.name == "int" for arg in part.args):
                return part
        elif self.peek().kind == "number" and self.peek().spaced:
            above = self._power()
            if self._accept("/") and self.peek().kind == "number":
                below = self._power()
                if above.name == below.name == "int":
                    return Node("div", (above, below))
        self._at = start
        return None

    def _is_plain_fraction(self) -> bool:
        """Look ahead for two integers. A trial parse instead would double its work at each level of nesting."""
        at = self._at + 1
        for _ in range(2):
            around = [token.text for token in self._tokens[at : at + 3]]
            if len(around) == 3 and around[0] == "{" and around[1].isdigit() and around[2] == "}":
                at += 3
            elif around and around[0].isdigit():
                if len(around[0]) > 1:
                    return True
                at += 1
            else:
                return False
        return True

    def _starts_factor(self) -> bool:
        token = self.peek()
        if token.kind in ("number", "letter"):
            return True
        if token.kind == "command":
            return token.text not in (
                "\\cup",
                "\\cap",
                "\\in",
                "\\le",
                "\\ge",
                "\\ne",
                "\\rfloor",
                "\\rceil",
                "\\rangle",
                "\\over",
                "\\choose",
            )
        return token.text in ("(", "{", "[") or (token.text in ("|", "\\|") and self._bars == 0)

    def _power(self) -> Node:
        spend(8)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooHeavy("nested too deep")
        node = self._postfix(self._primary())
        if self._accept("^"):
            exponent = self._exponent()
            node = self._postfix(Node("pow", (node, exponent)))
        self._depth -= 1
        return node

    def _exponent(self) -> Node:
        if self.peek().text in ("+", "-"):
            return self._signed_factor()
        if self.peek().text == "{":
            group = self._group()
            return Node("pow", (group, self._exponent())) if self._accept("^") else group
        return self._power()

    def _postfix(self, node: Node) -> Node:
        while True:
            if self.peek().text == "!":
                self._take()
                double = self.peek().text == "!" and not self.peek().spaced
                if double:
                    self._take()
                node = Node("fact2" if double else "fact", (node,))
            elif self._accept("\\deg"):
                node = Node("deg", (node,))
            elif self._accept("\\pct"):
                node = Node("div", (node, _integer(100)))
            else:
                return node

    def _primary(self) -> Node:
        token = self._take()
        if token.kind == "number":
            return self._number(token)
        if token.kind == "letter":
            return self._letter(token.text)
        if token.kind == "command":
            return self._command(token.text[1:])
        if token.text in ("(", "[", "{", "\\{"):
            node = self.expression()
            self._expect({"(": ")", "[": "]", "{": "}", "\\{": "\\}"}[token.text])
            return node
        if token.text in ("|", "\\|"):
            self._bars += 1
            node = self.expression()
            self._bars -= 1
            self._expect(token.text)
            return Node("fn", (node,), "abs")
        raise Unreadable(f"unexpected {token.text!r}")

    def _number(self, token: Token) -> Node:
        text = token.text.replace(",", "")
        if (
            self.peek().text == "."
            and self._at + 1 < len(self._tokens)
            and self._tokens[self._at + 1].text == "\\overline"
        ):
            self._at += 2
            return _repeating(text, "", self._digits_group())
        if "." in text and self.peek().text == "\\overline":
            self._at += 1
            before, after = text.split(".")
            return _repeating(before or "0", after, self._digits_group())
        if self.peek().text == "_":
            self._take()
            base = self._argument()
            if (
                base.op != "num"
                or base.value.denominator != 1
                or not 2 <= base.value <= 36
                or not text.replace(".", "", 1).isdigit()
            ):
                raise Unreadable("base")
            return Node("num", (base,), value=_in_base(text, int(base.value)), name="based")
        value, exponent = decimal(text)
        node = Node("num", value=value, name="int" if text.isdigit() else "dec")
        return node if exponent == 0 else Node("mul", (node, Node("pow", (_integer(10), _integer(exponent)))))

    def _digits_group(self) -> str:
        self._expect("{")
        token = self._take()
        self._expect("}")
        if not token.text.isdigit():
            raise Unreadable("repeating digits")
        return token.text

    def _letter(self, letter: str) -> Node:
        name = letter
        if self._accept("_"):
            return Node("var", name=f"{name}_{self._subscript()}")
        if letter in ("e", "i"):
            return Node("const", name=letter)
        while self._accept("'"):
            name += "'"
        return Node("var", name=name)

    def _subscript(self) -> str:
        if not self._accept("{"):
            return self._take().text
        parts = []
        while self.peek().text != "}" and not self.done():
            parts.append(self._take().text)
        self._expect("}")
        return "".join(parts)

    def _command(self, name: str) -> Node:
        if name == "frac":
            return Node("div", (self._argument(), self._argument()))
        if name == "binom":
            return Node("binom", self._binom_arguments())
        if name == "sqrt":
            return self._root()
        if name in ("lfloor", "lceil"):
            node = self.expression()
            self._expect("\\rfloor" if name == "lfloor" else "\\rceil")
            return Node("fn", (node,), "floor" if name == "lfloor" else "ceil")
        if name in ("sum", "prod"):
            return self._big_operator(name)
        if name in _CONSTANTS:
            return Node("const", name=_CONSTANTS[name])
        if name in FUNCTIONS:
            return self._function(name)
        if name in GREEK:
            return self._letter(name)
        raise Unreadable(f"\\{name}")

    def _binom_arguments(self) -> tuple[Node, Node]:
        if self._accept("("):
            upper = self.expression()
            self._expect(",")
            lower = self.expression()
            self._expect(")")
            return upper, lower
        return self._argument(), self._argument()

    def _root(self) -> Node:
        degree: Node = _integer(2)
        if self._accept("["):
            degree = self.expression()
            self._expect("]")
        return Node("pow", (self._argument(), Node("div", (_integer(1), degree))))

    def _argument(self) -> Node:
        """Parse a brace group, or the next single digit, letter or command, as TeX reads it."""
        if self.peek().text == "{":
            return self._group()
        if self.peek().text == "(":
            return self._primary()
        token = self.peek()
        if token.kind == "number" and len(token.text) > 1 and token.text.isdigit():
            self._tokens[self._at] = Token("number", token.text[1:], False)
            return _integer(int(token.text[0]))
        if token.kind in ("number", "letter"):
            return self._primary()
        if token.kind == "command":
            return self._primary()
        raise Unreadable(f"unexpected {token.text!r}")

    def _group(self) -> Node:
        self._expect("{")
        node = self.expression()
        self._expect("}")
        return node

    def _function(self, name: str) -> Node:
        base: Node | None = None
        power: Node | None = None
        while self.peek().text in ("_", "^"):
            if self._take().text == "_":
                base = self._argument()
            else:
                power = self._exponent()
        args = self._function_arguments()
        if power is not None and power.op == "neg" and name in ("sin", "cos", "tan"):
            name, power = "arc" + name, None
        if base is not None:
            if name != "log":
                raise Unreadable(f"subscript of {name}")
            args = (*args, base)
        node = Node("fn", args, name)
        return node if power is None else Node("pow", (node, power))

    def _function_arguments(self) -> tuple[Node, ...]:
        """Parse arguments in parentheses, or up to the next sign or function, as in `sin 2x cos y`."""
        if self.peek().text in ("(", "{", "["):
            closing = {"(": ")", "{": "}", "[": "]"}[self._take().text]
            args = [self.expression()]
            while self._accept(","):
                args.append(self.expression())
            self._expect(closing)
            return tuple(args)
        negative = self._accept("-")
        node = self._power()
        while (
            self._starts_factor()
            and self.peek().text.lstrip("\\") not in FUNCTIONS
            and self.peek().text != "("
        ):
            node = Node("mul", (node, self._power()))
        return (Node("neg", (node,)) if negative else node,)

    def _big_operator(self, op: str) -> Node:
        self._expect("_")
        self._expect("{")
        name = self._take()
        if name.kind != "letter":
            raise Unreadable("index")
        self._expect("=")
        low = self.expression()
        self._expect("}")
        self._expect("^")
        high = self._exponent()
        return Node(op, (low, high, self._term()), name.text)


def _integer(value: int) -> Node:
    return Node("num", value=Fraction(value), name="int")


def _repeating(before: str, after: str, repeated: str) -> Node:
    """Return the value of before.after(repeated).

    >>> _repeating("0", "1", "6").value
    Fraction(1, 6)
    """
    scale, period = 10 ** len(after), 10 ** len(repeated) - 1
    spend(len(before + after + repeated) ** 2 // 2_000)
    value = Fraction(whole(before + after), scale) + Fraction(whole(repeated), scale * period)
    return Node("num", value=value, name="rep")


def _in_base(digits: str, base: int) -> Fraction:
    before, _, after = digits.partition(".")
    try:
        return Fraction(whole(before + after, base), base ** len(after))
    except ValueError:
        raise Unreadable(f"{digits} is no number in base {base}") from None
