"""`real_set`: sets of reals as sorted, disjoint pieces, to compare intervals, relations and unions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key
from typing import Any

from verifier.answers.arithmetic import as_real, is_real, same_value, value_of
from verifier.answers.structured import (
    Answer,
    Bracketed,
    Everything,
    Expression,
    Nothing,
    Relation,
    Sequence,
    Union,
)
from verifier.budget import spend
from verifier.notation.latex import Node


@dataclass(frozen=True, slots=True)
class Bound:
    """An end point. `side` is -1 or 1 for the infinities; otherwise it is 0 and `value` holds the number."""

    side: int
    value: Any = None

    def order(self, other: Bound) -> int:
        if self.side or other.side:
            return (self.side > other.side) - (self.side < other.side)
        spend(5)
        if same_value(self.value, other.value):
            return 0
        return 1 if as_real(self.value) > as_real(other.value) else -1


LOW, HIGH = Bound(-1), Bound(1)


@dataclass(frozen=True, slots=True)
class Interval:
    low: Bound
    low_closed: bool
    high: Bound
    high_closed: bool

    def is_empty(self) -> bool:
        order = self.low.order(self.high)
        return order > 0 or (order == 0 and not (self.low_closed and self.high_closed))


RealSet = tuple[Interval, ...]
WHOLE: RealSet = (Interval(LOW, False, HIGH, False),)


class NotASet(ValueError):
    """The answer is no set of reals with numeric end points."""


def real_set(answer: Answer) -> RealSet:
    """Read an answer as a set of reals.

    Raises:
        NotASet: the answer is none.
    """
    if isinstance(answer, Everything):
        return WHOLE
    if isinstance(answer, Nothing):
        return ()
    if isinstance(answer, Bracketed) and len(answer.members) == 2:
        low, high = (_bound(member) for member in answer.members)
        return _normal([Interval(low, answer.left == "[", high, answer.right == "]")])
    if isinstance(answer, Sequence) and answer.braced and not answer.ordered:
        bounds = [_bound(member) for member in answer.members]
        return _normal(Interval(bound, True, bound, True) for bound in bounds)
    if isinstance(answer, Sequence) and excludes(answer):
        return _combine(Union(answer.members, "and"))
    if isinstance(answer, Union):
        return _combine(answer)
    if isinstance(answer, Relation):
        return _of_relation(answer)
    raise NotASet


def excludes(answer: Sequence) -> bool:
    """Return whether relations of one variable, as in `x > 0, x != 1`, exclude points."""
    relations = [member for member in answer.members if isinstance(member, Relation)]
    names = {
        name
        for relation in relations
        for side in relation.sides
        if isinstance(side, Expression)
        for name in side.node.variables()
    }
    is_whole = len(relations) == len(answer.members) and len(names) == 1
    return is_whole and any(relation.ops == ("ne",) for relation in relations)


def same_set(a: RealSet, b: RealSet) -> bool:
    """Return whether two sets have the same pieces with the same end points and closedness."""
    return len(a) == len(b) and all(
        left.low.order(right.low) == 0
        and left.high.order(right.high) == 0
        and (left.low_closed, left.high_closed) == (right.low_closed, right.high_closed)
        for left, right in zip(a, b, strict=True)
    )


def _bound(answer: Answer) -> Bound:
    if not isinstance(answer, Expression):
        raise NotASet
    if answer.unit:
        raise NotASet  # units must agree, which only a direct comparison can check
    node = answer.node
    if node.op == "const" and node.name == "inf":
        return HIGH
    if node.op == "neg" and node.args[0].op == "const" and node.args[0].name == "inf":
        return LOW
    if node.variables():
        raise NotASet
    value = value_of(node, {})
    if not is_real(value):
        raise NotASet
    return Bound(0, value)


def _combine(union: Union) -> RealSet:
    parts = [real_set(part) for part in union.parts]
    if union.op == "or":
        return _normal(piece for part in parts for piece in part)
    result = parts[0]
    for part in parts[1:]:
        result = _intersect(result, _complement(part) if union.op == "minus" else part)
    return result


def _of_relation(relation: Relation) -> RealSet:
    if relation.ops == ("in",):
        return real_set(relation.sides[1])
    if any(op in ("in", "=") for op in relation.ops):
        raise NotASet
    names = [_name(side) for side in relation.sides]
    if len(names) == 2 and not any(names):
        return _of_absolute(relation) if _absolute(relation) is not None else _of_linear(relation)
    if len(names) == 3 and not any(names):
        halves = (Relation(relation.sides[at : at + 2], relation.ops[at : at + 1]) for at in (0, 1))
        low, high = (_of_relation(half) for half in halves)
        return _intersect(low, high)
    if sum(name is not None for name in names) != 1:
        raise NotASet
    at = next(index for index, name in enumerate(names) if name is not None)
    result = WHOLE
    for index, op in enumerate(relation.ops):
        if at not in (index, index + 1):
            raise NotASet
        other = relation.sides[index + 1 if at == index else index]
        result = _intersect(result, _half(op if at == index else _FLIPPED[op], other))
    return result


def _absolute(relation: Relation) -> tuple[Node, str, Node] | None:
    """Return (u, op, c) of `|u| op c`, with the bars on either side."""
    low, high = relation.sides
    if not isinstance(low, Expression) or not isinstance(high, Expression):
        return None
    op = relation.ops[0]
    for side, other, seen in ((low.node, high.node, op), (high.node, low.node, _FLIPPED.get(op, op))):
        if side.op == "fn" and side.name == "abs" and not other.variables():
            return side.args[0], seen, other
    return None


def _of_absolute(relation: Relation) -> RealSet:
    """Solve `|u| < c` as the interval from -c to c, `|u| > c` as its outside."""
    found = _absolute(relation)
    if found is None or found[1] == "ne":
        raise NotASet
    inner, op, limit = found
    upper = real_set(Relation((Expression(inner), Expression(limit)), (op,)))
    negated = Expression(Node("neg", (limit,)))
    lower = real_set(Relation((Expression(inner), negated), (_FLIPPED[op],)))
    return _intersect(upper, lower) if op in ("<", "le") else _normal((*upper, *lower))


def _of_linear(relation: Relation) -> RealSet:
    """Solve `a x + b op 0` for its one variable: `-x > -1` is `x < 1`."""
    low, high = relation.sides
    if not isinstance(low, Expression) or not isinstance(high, Expression):
        raise NotASet
    names = low.node.variables() | high.node.variables()
    if len(names) != 1:
        raise NotASet
    name = next(iter(names))

    if low.unit or high.unit:
        raise NotASet

    def difference(at: int) -> Fraction:
        left, right = (value_of(side, {name: Fraction(at)}) for side in (low.node, high.node))
        if not isinstance(left, Fraction) or not isinstance(right, Fraction):
            raise NotASet
        return left - right

    constant, slope = difference(0), difference(1) - difference(0)
    if slope == 0 or any(difference(at) != constant + slope * at for at in (2, 5, -3)):
        raise NotASet
    op = relation.ops[0] if slope > 0 else _FLIPPED[relation.ops[0]]
    root = -constant / slope
    return _half(op, Expression(Node("num", value=root, name="dec")))


_FLIPPED = {"<": ">", ">": "<", "le": "ge", "ge": "le", "ne": "ne"}


def _name(side: Answer) -> str | None:
    """Return the variable that forms a whole side; `f(x)` counts as one."""
    if not isinstance(side, Expression):
        return None
    node = side.node
    if node.op == "var":
        return node.name
    if (
        node.op == "mul"
        and node.args[0].op == node.args[1].op == "var"
        and node.args[0].name in ("f", "g", "h")
    ):
        return node.args[0].name
    return None


def _half(op: str, other: Answer) -> RealSet:
    if op == "ne":
        points = other.members if isinstance(other, Sequence) else (other,)
        result = WHOLE
        for point in points:
            bound = _bound(point)
            result = _intersect(
                result, (Interval(LOW, False, bound, False), Interval(bound, False, HIGH, False))
            )
        return result
    bound = _bound(other)
    if op in ("<", "le"):
        return _normal([Interval(LOW, False, bound, op == "le")])
    return _normal([Interval(bound, op == "ge", HIGH, False)])


def _normal(pieces: Iterable[Interval]) -> RealSet:
    """Sort and merge pieces into disjoint ones; infinite ends count as open."""
    kept = [_open_at_infinity(piece) for piece in pieces if not piece.is_empty()]
    kept.sort(key=cmp_to_key(_by_low))
    merged: list[Interval] = []
    for piece in kept:
        if merged and _touches(merged[-1], piece):
            merged[-1] = _join(merged[-1], piece)
        else:
            merged.append(piece)
    return tuple(merged)


def _open_at_infinity(piece: Interval) -> Interval:
    return Interval(
        piece.low,
        piece.low_closed and not piece.low.side,
        piece.high,
        piece.high_closed and not piece.high.side,
    )


def _by_low(a: Interval, b: Interval) -> int:
    return a.low.order(b.low) or (b.low_closed - a.low_closed)


def _touches(left: Interval, right: Interval) -> bool:
    order = right.low.order(left.high)
    return order < 0 or (order == 0 and (left.high_closed or right.low_closed))


def _join(left: Interval, right: Interval) -> Interval:
    order = left.high.order(right.high)
    if order == 0:
        return Interval(left.low, left.low_closed, left.high, left.high_closed or right.high_closed)
    wider = left if order > 0 else right
    return Interval(left.low, left.low_closed, wider.high, wider.high_closed)


def _intersect(a: RealSet, b: RealSet) -> RealSet:
    return _normal(_overlap(left, right) for left in a for right in b)


def _overlap(a: Interval, b: Interval) -> Interval:
    low_order, high_order = a.low.order(b.low), a.high.order(b.high)
    low = a if low_order > 0 else b
    high = a if high_order < 0 else b
    return Interval(
        low.low,
        low.low_closed if low_order else a.low_closed and b.low_closed,
        high.high,
        high.high_closed if high_order else a.high_closed and b.high_closed,
    )


def _complement(a: RealSet) -> RealSet:
    result = WHOLE
    for piece in a:
        below = Interval(LOW, False, piece.low, not piece.low_closed)
        above = Interval(piece.high, not piece.high_closed, HIGH, False)
        result = _intersect(
            result, _normal(side for side, end in ((below, piece.low), (above, piece.high)) if not end.side)
        )
    return result
