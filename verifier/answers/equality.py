"""`same`: symmetric equality of structured answers: expressions, lists, matrices, relations, sets."""

from __future__ import annotations

import re
from fractions import Fraction

from verifier.answers.arithmetic import agree, as_real, is_real, same_value, value_of
from verifier.answers.real_sets import NotASet, excludes, real_set, same_set
from verifier.answers.structured import (
    Answer,
    Bracketed,
    Everything,
    Expression,
    Matrix,
    Nothing,
    Relation,
    Sequence,
    Text,
    Union,
)
from verifier.budget import TooHeavy, spend
from verifier.notation.latex import Node, Unreadable
from verifier.notation.units import same_unit

MIN_DIGITS = 6
"""Significant digits from which a decimal equals the exact value that it rounds."""
_MAX_MATCHED = 200
"""Longest unordered list whose members are matched one by one."""


def same(a: Answer, b: Answer) -> bool:
    """Return whether two structured answers are equal; symmetric."""
    spend(5)
    left, right = _bare(a), _bare(b)
    return left is not None and right is not None and _same_bare(left, right)


def _same_bare(a: Answer, b: Answer) -> bool:
    if isinstance(a, Expression) and isinstance(b, Expression):
        return _same_expression(a, b)
    if isinstance(a, Union) and isinstance(b, Sequence) and not excludes(b):
        a = _as_list(a)
    if isinstance(b, Union) and isinstance(a, Sequence) and not excludes(a):
        b = _as_list(b)
    if isinstance(a, Text) or isinstance(b, Text):
        return _same_text(a, b)
    if isinstance(a, Relation) and isinstance(b, Relation):
        verdict = _same_relation(a, b)
        if verdict is not None:
            return verdict
    if isinstance(a, Bracketed) and isinstance(b, Bracketed):
        return _same_bracketed(a, b)
    if isinstance(a, Sequence) and isinstance(b, Sequence):
        return _same_sequence(a, b)
    if isinstance(a, Relation) != isinstance(b, Relation):
        relation, value = (a, b) if isinstance(a, Relation) else (b, a)
        assert isinstance(relation, Relation)
        verdict = _relation_against_value(relation, value)
        if verdict is not None:
            return verdict
    if isinstance(a, Matrix) or isinstance(b, Matrix):
        return _same_matrix(a, b)
    return _same_real_set(a, b)


def _bare(answer: Answer) -> Answer | None:
    """Unwrap a single bare member, and shorten a chain of equals signs; None for an untrue chain."""
    if isinstance(answer, Sequence) and len(answer.members) == 1 and not answer.braced:
        answer = answer.members[0]
    return _shortened(answer) if _is_equation(answer) else answer


def _shortened(relation: Answer) -> Answer | None:
    """Return `x = 5+1 = 6` as `x = 6`, `5+1 = 6` as `6`, `6 = x` as `x = 6`; None when a link does not hold.

    Every side without a name must equal the last one; `x = 8 = 7` equals nothing.
    """
    assert isinstance(relation, Relation)
    sides = relation.sides
    if _is_value(sides[0]) and all(_is_name(side) for side in sides[1:]):
        sides = sides[::-1]
    values = [side for side in sides if _is_value(side)]
    last = sides[-1]
    if any(not same(value, last) for value in values[:-1]):
        return None
    if len(values) == len(sides):
        return last
    if len(sides) == 2:
        return Relation(sides, ("=",))
    return _without_middle(sides)


def _without_middle(sides: tuple[Answer, ...]) -> Answer | None:
    """Shorten a chain with names. A middle link must be a name, a value equal to the last side, or an identity."""
    first, last = sides[0], sides[-1]
    middle = [side for side in sides[1:-1] if not _is_value(side) and not _is_name(side)]
    if any(not same(side, last) for side in middle):
        return None
    if not _is_name(first) and not isinstance(last, Text) and _mentions_names(last) and same(first, last):
        return last
    if any(_is_value(side) for side in sides[1:-1]):
        return Relation(
            (first, last, last), ("=", "=")
        )  # a computed value, so the chain is no equation to be solved
    return Relation((first, last), ("=",))


def _is_value(side: Answer) -> bool:
    return isinstance(side, Expression) and not side.node.variables()


def _mentions_names(side: Answer) -> bool:
    return isinstance(side, Expression) and bool(side.node.variables())


def _is_name(side: Answer) -> bool:
    if isinstance(side, Expression):
        return _names_only(side.node) or _of_segments(side.node)
    return isinstance(side, Text)


def _as_list(answer: Answer) -> Answer:
    """Return `(5,9) or (9,5)` as a list of two points, to compare it with a list."""
    if isinstance(answer, Union) and answer.op == "or":
        points = [
            isinstance(part, Bracketed) and (part.left, part.right) == ("(", ")") for part in answer.parts
        ]
        values = [isinstance(part, Expression) or _is_equation(part) for part in answer.parts]
        if all(points) or all(values):
            return Sequence(answer.parts)
    return answer


def _is_equation(answer: Answer) -> bool:
    return isinstance(answer, Relation) and set(answer.ops) == {"="}


def _same_real_set(a: Answer, b: Answer) -> bool:
    kinds = (Bracketed, Everything, Nothing, Relation, Union, Sequence)
    if not (isinstance(a, kinds) and isinstance(b, kinds)):
        return False
    if (isinstance(a, Nothing) and isinstance(b, Nothing)) or (
        isinstance(a, Everything) and isinstance(b, Everything)
    ):
        return True
    try:
        return same_set(real_set(a), real_set(b))
    except NotASet:
        return isinstance(a, Union) and isinstance(b, Union) and _same_union(a, b)


def _same_union(a: Union, b: Union) -> bool:
    return a.op == b.op and _matched(a.parts, b.parts)


def _same_text(a: Answer, b: Answer) -> bool:
    left, right = _as_words(a), _as_words(b)
    if isinstance(a, Sequence) or isinstance(
        b, Sequence
    ):  # 'A and C' as text against `A, C`: letters in order
        left, right = (" ".join(_LIST_WORDS.sub(" ", side).split()) for side in (left, right))
    return bool(left) and left == right


_LIST_WORDS = re.compile(r"\band\b|,")


def _as_words(answer: Answer) -> str:
    if isinstance(answer, Text):
        return answer.words
    if isinstance(answer, Sequence) and not (answer.braced or answer.ordered):
        letters = [_as_words(member) for member in answer.members]
        return " ".join(letters) if all(letters) else ""
    if isinstance(answer, Expression) and answer.node.op in ("var", "const") and len(answer.node.name) == 1:
        return answer.node.name.casefold()
    return ""


# --- expressions -----------------------------------------------------------------------------------------


def _same_expression(a: Expression, b: Expression) -> bool:
    units_agree = same_unit(a.unit, b.unit)
    if units_agree is None:
        raise Unreadable(f"the words {a.unit.lstrip('?#')!r} beside {b.unit.lstrip('?#')!r}")
    if not units_agree:
        return False
    if a.modulus is not None and b.modulus is not None and a.modulus != b.modulus:
        return False
    infinite = _infinity(a.node), _infinity(b.node)
    if infinite != (0, 0):
        return infinite[0] == infinite[1]
    based = _same_digits(a.node, b.node)
    if based is not None:
        return based
    if _same_node(a, b):
        return True
    if a.percent != b.percent:
        whole, share = (a, b) if a.percent else (b, a)
        return _same_node(Expression(Node("div", (whole.node, _HUNDRED))), share)
    return False


_HUNDRED = Node("num", value=Fraction(100), name="int")


def _infinity(node: Node) -> int:
    """Return 1 or -1 for a plain infinity, else 0."""
    if node.op == "const" and node.name == "inf":
        return 1
    return -_infinity(node.args[0]) if node.op == "neg" else 0


def _same_node(a: Expression, b: Expression) -> bool:
    if a.node == b.node:
        return True
    if agree(a.node, b.node):
        return True
    return _rounds(a, b) or _rounds(b, a)


def _same_digits(a: Node, b: Node) -> bool | None:
    """Compare `312_4` with a bare `312`, whose base is missing. None when this rule does not apply."""
    if a.op != "num" or b.op != "num" or (a.name == "based") == (b.name == "based"):
        return None
    based, bare = (a, b) if a.name == "based" else (b, a)
    if bare.name not in ("int", "dec") or bare.value < 0:
        return None
    base, places = int(based.args[0].value), 0
    while (bare.value * 10**places).denominator != 1 and places < 60:
        places += 1
    if (bare.value * 10**places).denominator != 1:
        return False
    digits = _in_base(int(bare.value * 10**places), base)
    return digits is not None and Fraction(digits, base**places) == based.value


def _in_base(digits: int, base: int) -> int | None:
    """Read the digits of a decimal in another base; None where a digit is too large for the base.

    >>> _in_base(312, 4), _in_base(45, 4)
    (54, None)
    """
    if digits.bit_length() > 4096:
        raise TooHeavy("too many digits to change their base")
    value, place = 0, 1
    while digits:
        digits, digit = divmod(digits, 10)
        if digit >= base:
            return None
        value += digit * place
        place *= base
    return value


def _rounds(decimal: Expression, exact: Expression) -> bool:
    """Return whether the decimal literal is the other value, rounded or cut at its last place."""
    if decimal.places is None or decimal.digits < MIN_DIGITS or decimal.percent or exact.places is not None:
        return False
    if exact.node.variables():
        return False
    value = value_of(exact.node, {})
    if not is_real(value):
        return False
    literal = value_of(decimal.node, {})
    unit = Fraction(1, 10**decimal.places)
    if not (isinstance(value, Fraction) and isinstance(literal, Fraction)):
        value, literal, unit = as_real(value), as_real(literal), as_real(unit)
    is_rounded = 2 * abs(value - literal) <= unit
    return is_rounded or (value * literal > 0 and 0 <= abs(value) - abs(literal) < unit)


# --- collections -----------------------------------------------------------------------------------------


def _matched(a: tuple[Answer, ...], b: tuple[Answer, ...]) -> bool:
    """Return whether each member of a equals one member of b, without repetition."""
    if len(a) != len(b):
        return False
    if len(a) > _MAX_MATCHED:
        raise TooHeavy("a list too long to match")
    left = list(b)
    for member in a:
        at = next((index for index, other in enumerate(left) if same(member, other)), None)
        if at is None:
            return False
        del left[at]
    return True


def _same_sequence(a: Sequence, b: Sequence) -> bool:
    if a.ordered or b.ordered:
        return a.ordered == b.ordered and _in_order(a.members, b.members)
    return _matched(a.members, b.members)


def _in_order(a: tuple[Answer, ...], b: tuple[Answer, ...]) -> bool:
    return len(a) == len(b) and all(same(left, right) for left, right in zip(a, b, strict=True))


def _same_bracketed(a: Bracketed, b: Bracketed) -> bool:
    if (a.left, a.right) != (b.left, b.right):
        return False
    return _in_order(a.members, b.members)


def _same_matrix(a: Answer, b: Answer) -> bool:
    if isinstance(a, Matrix) and isinstance(b, Matrix):
        return len(a.rows) == len(b.rows) and all(
            _in_order(x, y) for x, y in zip(a.rows, b.rows, strict=True)
        )
    matrix, other = (a, b) if isinstance(a, Matrix) else (b, a)
    if (
        not isinstance(matrix, Matrix)
        or not isinstance(other, Bracketed)
        or (other.left, other.right) != ("(", ")")
    ):
        return False
    if len(matrix.rows) == 1:
        return _in_order(matrix.rows[0], other.members)
    if all(len(row) == 1 for row in matrix.rows):
        return _in_order(tuple(row[0] for row in matrix.rows), other.members)
    return False


# --- relations -------------------------------------------------------------------------------------------


def _same_relation(a: Relation, b: Relation) -> bool | None:
    """Compare two relations; None when they must be compared as sets."""
    if set(a.ops) == set(b.ops) == {"="}:
        return _same_equation(a, b)
    names = _names_of(a), _names_of(b)
    if names[0] and names[1] and names[0] != names[1]:
        return False
    try:
        return same_set(real_set(a), real_set(b))
    except NotASet:
        pass
    if a.ops == b.ops and _in_order(a.sides, b.sides):
        return True
    flipped = {"<": ">", ">": "<", "le": "ge", "ge": "le"}
    return tuple(flipped.get(op, op) for op in reversed(b.ops)) == a.ops and _in_order(a.sides, b.sides[::-1])


def _names_of(relation: Relation) -> frozenset[str]:
    return frozenset().union(
        *(side.node.variables() for side in relation.sides if isinstance(side, Expression))
    )


def _same_equation(a: Relation, b: Relation) -> bool:
    a, b = (Relation((side.sides[0], side.sides[-1]), ("=",)) for side in (a, b))
    left, right = _name_on_left(a), _name_on_left(b)
    if left and right:
        if left == right:
            return same(a.sides[-1], b.sides[-1])
        if not (_names_of(a) & {right}) and not (_names_of(b) & {left}):
            return False
    if all(isinstance(side, Expression) and not side.unit for side in a.sides + b.sides):
        return _proportional(_difference(a), _difference(b))
    return same(a.sides[-1], b.sides[-1]) and same(a.sides[0], b.sides[0])


def _difference(relation: Relation) -> Node:
    low, high = relation.sides
    assert isinstance(low, Expression)
    assert isinstance(high, Expression)
    return Node("add", (low.node, Node("neg", (high.node,))))


def _proportional(a: Node, b: Node) -> bool:
    """Return whether one equation is the other times a constant that is not 0."""
    if a.variables() != b.variables() or not a.variables():
        return False
    names = sorted(a.variables())
    fixed = {name: Fraction(17 + 5 * index, 7 + index) for index, name in enumerate(names)}
    scale_a, scale_b = value_of(a, fixed), value_of(b, fixed)
    if same_value(scale_a, Fraction(0)) or same_value(scale_b, Fraction(0)):
        return False
    return agree(Node("mul", (a, _constant_node(b, fixed))), Node("mul", (b, _constant_node(a, fixed))))


def _constant_node(node: Node, where: dict[str, Fraction]) -> Node:
    if node.op == "var":
        return Node("num", value=where[node.name], name="dec")
    return Node(node.op, tuple(_constant_node(arg, where) for arg in node.args), node.name, node.value)


_NAME = re.compile(r"[A-Za-z]")


def _name_on_left(relation: Relation) -> str:
    """Return the x of `x = ..` or the f of `f(x) = ..`; '' when the left side is more than a name."""
    first = relation.sides[0]
    if isinstance(first, Text):
        return first.words or ""
    if isinstance(first, Bracketed | Sequence):
        names = [
            side.node.name for side in first.members if isinstance(side, Expression) and side.node.variables()
        ]
        return ",".join(names) if len(names) == len(first.members) else ""
    if not isinstance(first, Expression):
        return ""
    node = first.node
    if node.op == "var":
        return node.name
    if node.op == "mul" and all(arg.op == "var" for arg in node.args) and _NAME.match(node.args[0].name):
        return node.args[0].name
    if node.op == "mul" and node.args[0].op == "pow" and node.args[1].op == "var":
        return "inverse"
    return ""


def _relation_against_value(relation: Relation, value: Answer) -> bool | None:
    """Compare `x = 5` with `5`, `m + n = 293` with `293`. None when the relation is no equation."""
    if set(relation.ops) == {"in"} and not isinstance(
        value, Bracketed | Union | Everything | Nothing | Sequence
    ):
        return False
    last = relation.sides[-1]
    if relation.ops == ("in",) and isinstance(last, Sequence) and isinstance(value, Sequence):
        return same(last, value)  # x in {1, 2} lists the values of x
    if set(relation.ops) != {"="}:
        return None
    if _name_on_left(relation) or (isinstance(last, Matrix) and _is_named_matrix(relation.sides[0])):
        return same(last, value)
    if _mentions_names(last) and isinstance(value, Expression) and not _is_name(relation.sides[0]):
        return same(relation.sides[0], last) and same(last, value)  # an identity: x(x+2) = x^2+2x
    if not isinstance(last, Expression) or not isinstance(value, Expression) or last.node.variables():
        return False
    return _is_named_sum(relation) and same(last, value)


def _is_named_matrix(side: Answer) -> bool:
    """Return whether a side is `A`, `AB` or `A^{-1}`: a product without a number."""
    if not isinstance(side, Expression):
        return False
    node = side.node.args[0] if side.node.op == "pow" else side.node
    return _names_only(node)


def _is_named_sum(relation: Relation) -> bool:
    """Return whether the left side only names a result: `m + n = 58`, `mn = .. = 58`, `NO / BO = 2`.

    `x^2 + y^2 = 36` is an equation.
    """
    first, *middle, last = relation.sides
    if not isinstance(first, Expression):
        return False
    if middle:
        return True
    if same_value(value_of(_node_of(last), {}), Fraction(0)):
        return False
    return _names_only(first.node) or _of_segments(first.node)


def _node_of(answer: Answer) -> Node:
    assert isinstance(answer, Expression)
    return answer.node


def _names_only(node: Node) -> bool:
    """Return whether a node holds names only: `m`, `mn`, `n - m`, `tan A`; not `-m`, which names the other sign."""
    if node.op == "add":
        return all(_names_only(arg.args[0] if arg.op == "neg" else arg) for arg in node.args)
    known = node.op == "mul" or (node.op == "fn" and node.name in _NAMED_BY)
    return node.op == "var" or (known and all(_names_only(arg) for arg in node.args))


_NAMED_BY = frozenset({"sin", "cos", "tan", "cot", "sec", "csc", "gcd", "lcm"})
"""A function of names alone names its value, except abs and roots, which would be solved for the name."""


def _of_segments(node: Node) -> bool:
    """Return whether a node holds lengths and their ratios in geometric names: capital letters only."""
    if node.op == "var":
        return node.name.isupper()
    known = node.op in ("mul", "div") or (node.op == "fn" and node.name == "abs")
    return known and all(_of_segments(arg) for arg in node.args)
