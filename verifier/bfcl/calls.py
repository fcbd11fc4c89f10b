"""`decode` and `check`: read BFCL's single-turn calls from a response and check them with the published checker.

No model text is evaluated: calls come from JSON (`<tool_call>` blocks), or from a Python call list read as a syntax
tree of literals. The published decoder evaluates some expressions; this one refuses them.
"""

from __future__ import annotations

import ast
import copy
import functools
import importlib.util
import json
import re
import sys
import types
import warnings
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from verifier.answers.extract import without_end_marks
from verifier.bfcl.call_names import parsable, true_name, with_true_names
from verifier.turn import CallText, CallUnread, read_turn, without_reasoning

INSTALL = (
    "pip install --no-deps bfcl-eval==2026.3.23 tree_sitter==0.21.3 tree-sitter-java==0.21.0 "
    "tree-sitter-javascript==0.21.4"
)
Call = dict[str, dict[str, Any]]
"""One call: {name: {argument: value}}."""


class Kind(StrEnum):
    """The kind of check of a category."""

    AST = "ast"
    IRRELEVANCE = "irrelevance"
    RELEVANCE = "relevance"
    MULTI_TURN = "multi_turn"


NON_LIVE_SIMPLE = ("simple", "java", "javascript")
LIVE = (
    "live_simple",
    "live_multiple",
    "live_parallel",
    "live_parallel_multiple",
    "live_irrelevance",
    "live_relevance",
)
MULTI_TURN = ("multi_turn_base", "multi_turn_miss_func", "multi_turn_miss_param", "multi_turn_long_context")
CATEGORIES: tuple[str, ...] = (
    *NON_LIVE_SIMPLE,
    "multiple",
    "parallel",
    "parallel_multiple",
    "irrelevance",
    *LIVE,
    *MULTI_TURN,
)


def kind_of(category: str) -> Kind:
    """Return the kind of check of a category.

    >>> kind_of("live_irrelevance").value, kind_of("java").value
    ('irrelevance', 'ast')
    """
    if category.startswith("multi_turn"):
        return Kind.MULTI_TURN
    if category.endswith("irrelevance"):
        return Kind.IRRELEVANCE
    return Kind.RELEVANCE if category.endswith("relevance") else Kind.AST


class NoCalls(ValueError):
    """The response holds no readable call."""


class Unjudged(ValueError):
    """The published check cannot judge these calls: they hold values that no gold has."""


MAX_CALL_CHARS = 100_000
"""Longer Python text is no list of calls; bounds the time of its syntax tree."""
_FENCE = re.compile(r"\A```[a-z]*\s*")


def decode(response: str) -> list[Call]:
    """Read the calls of a response: `<tool_call>` JSON, a JSON list, or a Python list such as `[f(a=1), g(b="x")]`.

    Raises:
        NoCalls: no calls, or arguments that are no literals.

    >>> decode('[area(base=10, height=-5.5), math.hypot(x=3, y=[1, "a"])]')
    [{'area': {'base': 10, 'height': -5.5}}, {'math.hypot': {'x': 3, 'y': [1, 'a']}}]
    >>> decode('<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>')
    [{'f': {'a': 1}}]
    """
    written = read_turn(response).calls
    if written:
        return [_call_of(_value(call)) for call in written]
    text = unfenced(response)
    if text.startswith(("{", "[{")):
        rows = _value(CallText(body=text, is_object=True))
        return [_call_of(row) for row in (rows if isinstance(rows, list) else [rows])]
    return [_python_call(node) for node in call_nodes(text)]


def _visible(response: str) -> str:
    """Return the response without its reasoning and the marks that end a turn."""
    return without_end_marks(without_reasoning(response)).strip()


def unfenced(response: str) -> str:
    r"""Return the visible text, taken out of a Markdown code block if it is in one.

    >>> unfenced("```python\n[f(a=1)]\n```<|im_end|>")
    '[f(a=1)]'
    """
    return _FENCE.sub("", _visible(response)).removesuffix("```").strip("`\n ")


def _value(call: CallText) -> Any:
    try:
        return call.value()
    except CallUnread as error:
        raise NoCalls(f"cannot be read: {error}") from None


def _call_of(row: Any) -> Call:
    if not isinstance(row, dict):
        raise NoCalls("a call is not an object")
    if isinstance(row.get("name"), str) and isinstance(row.get("arguments"), dict):
        return {row["name"]: row["arguments"]}
    if len(row) == 1 and all(isinstance(args, dict) for args in row.values()):
        return dict(row)
    raise NoCalls("a call needs a name and arguments")


def call_nodes(text: str) -> list[ast.Call]:
    """Return the syntax trees of the calls in a Python list of calls.

    Raises:
        NoCalls: the text is anything else.
    """
    wrapped = text if text.startswith("[") else f"[{text}]"
    if len(wrapped) > MAX_CALL_CHARS:
        raise NoCalls("too long")
    tree = _parsed(wrapped)
    nodes = tree.elts if isinstance(tree, ast.List) else []
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    if not calls or len(calls) != len(nodes):
        raise NoCalls("not a list of calls")
    return calls


def _parsed(text: str) -> ast.expr:
    """Parse a list; a line break inside quotes counts as a blank."""
    fault = NoCalls("not a list of calls")
    flat = text.replace("\n", " ")
    for spelled in dict.fromkeys((text, flat, parsable(text), parsable(flat))):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)  # an invalid escape of the model is no warning
                return ast.parse(spelled, mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            fault = NoCalls(f"not a list of calls: {type(error).__name__}")
    raise fault


def name_of(call: ast.Call) -> str:
    """Return the dotted name of the called function.

    Raises:
        NoCalls: the function is no name.
    """
    parts: list[str] = []
    node: ast.expr = call.func
    while isinstance(node, ast.Attribute):
        parts.append(true_name(node.attr))
        node = node.value
    if not isinstance(node, ast.Name):
        raise NoCalls("the function is no name")
    return ".".join([true_name(node.id), *reversed(parts)])


def _python_call(call: ast.Call) -> Call:
    if call.args or any(keyword.arg is None for keyword in call.keywords):
        raise NoCalls("arguments must be given by name")
    try:
        arguments = {true_name(str(keyword.arg)): _literal(keyword.value) for keyword in call.keywords}
    except (RecursionError, MemoryError):
        raise NoCalls("an argument is nested too deep") from None
    return {name_of(call): arguments}


def _literal(node: ast.expr) -> Any:
    if isinstance(node, ast.Call | ast.Subscript):  # source text, as in the published decoder
        return with_true_names(ast.unparse(node))
    if isinstance(node, ast.Name):
        return {"true": True, "false": False, "null": None}.get(node.id, node.id)
    if isinstance(node, ast.List | ast.Tuple):
        values = [_literal(value) for value in node.elts]
        return values if isinstance(node, ast.List) else tuple(values)
    if isinstance(node, ast.Dict):
        if any(key is None for key in node.keys):
            raise NoCalls("** in a dict")
        keys = [_literal(key) for key in node.keys if key]
        try:
            return dict(zip(keys, map(_literal, node.values), strict=True))
        except TypeError:
            raise NoCalls("a list or a dict as a key") from None
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError) as error:
        raise NoCalls(f"an argument is no literal: {error}"[:200]) from None


def check(
    category: str, functions: Sequence[Mapping[str, Any]], gold: Sequence[Any], response: str
) -> tuple[bool, str]:
    """Check a response to a single-turn entry; return the verdict and, if wrong, the reason.

    Raises:
        DataUnavailable: the published checker is not installed.
        Unjudged: it cannot judge these calls.
    """
    kind = kind_of(category)
    try:
        calls = decode(response)
    except NoCalls as error:
        return kind is Kind.IRRELEVANCE, f"no call: {error}"
    if kind is Kind.IRRELEVANCE:
        return False, "called a function although none fits"
    if kind is Kind.RELEVANCE:
        return True, "called a function"
    return check_calls(category, functions, gold, calls)


def check_calls(
    category: str, functions: Sequence[Mapping[str, Any]], gold: Sequence[Any], calls: Sequence[Call]
) -> tuple[bool, str]:
    """Run the published syntax-tree check: types, allowed values, order-free for parallel calls.

    Raises:
        Unjudged: values of these calls raise an error inside the check.
    """
    checker = published_checker()
    language = category if category in ("java", "javascript") else "python"
    answers = [dict(call) for call in calls]
    if language != "python":
        answers = [
            {name: {key: _text(value) for key, value in args.items()} for name, args in c.items()}
            for c in answers
        ]
    from bfcl_eval.constants.enums import Language

    # The check may change what it receives, and all samples of a question share its entry.
    functions, gold = copy.deepcopy((list(functions), list(gold)))
    try:
        result = checker(functions, answers, gold, Language(language), category, _MODEL)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise Unjudged(f"the published check breaks on these calls: {type(error).__name__}") from None
    if result["valid"]:
        return True, "calls match"
    return False, f"{result.get('error_type', 'error')}: {str(result.get('error', ''))[:150]}"


def _text(value: Any) -> str:
    """Return a Java or JavaScript argument as source text, as the checker expects it."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):  # JSON has no set, bytes or complex number
        return repr(value)


_MODEL = "rstar2"


class _Names(dict[str, Any]):
    """Accepts any model name: function names keep their dots."""

    def __missing__(self, key: str) -> Any:
        return types.SimpleNamespace(underscore_to_dot=False)


@functools.cache
def published_checker() -> Any:
    """Return the `ast_checker` of bfcl-eval, without the vendor clients that its model table would import."""
    from verifier.declaration import DataUnavailable

    if importlib.util.find_spec("bfcl_eval") is None:
        raise DataUnavailable(f"bfcl_v3: not evaluated: the published checker is missing: {INSTALL}")
    stub = types.ModuleType("bfcl_eval.constants.model_config")
    stub.__dict__["MODEL_CONFIG_MAPPING"] = _Names()
    sys.modules.setdefault("bfcl_eval.constants.model_config", stub)
    from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker

    return ast_checker


def gold_calls(gold: Sequence[Mapping[str, Mapping[str, Sequence[Any]]]]) -> list[Call]:
    """Return the calls of a gold: the first allowed value of each argument, without optional ones.

    >>> gold_calls([{"f": {"a": [1, 2], "b": ["", 5]}}])
    [{'f': {'a': 1}}]
    """
    return [
        {
            name: {key: _first(values) for key, values in args.items() if "" not in values[:1]}
            for name, args in call.items()
        }
        for call in gold
    ]


def _first(values: Sequence[Any]) -> Any:
    value = values[0] if values else []
    if isinstance(value, dict):
        return {
            key: _first(inner) if isinstance(inner, list) else inner
            for key, inner in value.items()
            if inner != [""]
        }
    if isinstance(value, list) and value and all(isinstance(row, dict) for row in value):
        return [
            {key: _first(inner) if isinstance(inner, list) else inner for key, inner in row.items()}
            for row in value
        ]
    return value


# --- the overall score -----------------------------------------------------------------------------------


def overall(accuracy: Mapping[str, float], counts: Mapping[str, int]) -> dict[str, float]:
    """Return the v3 score: the plain mean of Non-Live, Live and Multi-Turn; a missing category counts as 0.

    Non-Live is the plain mean of simple (itself the mean of three languages), multiple, parallel, parallel_multiple and
    irrelevance; Live is weighted by counts; Multi-Turn is the plain mean of four.

    >>> everything = {name: 1.0 for name in CATEGORIES}
    >>> overall(everything, {name: 10 for name in CATEGORIES})["overall"]
    1.0
    """
    simple = _mean([accuracy.get(name, 0.0) for name in NON_LIVE_SIMPLE])
    others = ("multiple", "parallel", "parallel_multiple", "irrelevance")
    non_live = _mean([simple, *(accuracy.get(name, 0.0) for name in others)])
    total = sum(counts.get(name, 0) for name in LIVE)
    live = sum(accuracy.get(name, 0.0) * counts.get(name, 0) for name in LIVE) / total if total else 0.0
    multi = _mean([accuracy.get(name, 0.0) for name in MULTI_TURN])
    return {
        "non_live": non_live,
        "live": live,
        "multi_turn": multi,
        "overall": _mean([non_live, live, multi]),
    }


def overall_v4(accuracy: Mapping[str, float], counts: Mapping[str, int]) -> dict[str, float]:
    """Return the score with the v4 weights (Live 10, Non-Live 10, Irrelevance 10, Multi-Turn 30, Agentic 40).

    Agentic is not measured and counts as 0, so the number is a lower bound. It is not comparable with a v3 number.
    """
    simple = _mean([accuracy.get(name, 0.0) for name in NON_LIVE_SIMPLE])
    non_live = _mean(
        [simple, *(accuracy.get(name, 0.0) for name in ("multiple", "parallel", "parallel_multiple"))]
    )
    called = LIVE[:4]
    total = sum(counts.get(name, 0) for name in called)
    live = sum(accuracy.get(name, 0.0) * counts.get(name, 0) for name in called) / total if total else 0.0
    irrelevance = _mean([accuracy.get("irrelevance", 0.0), accuracy.get("live_irrelevance", 0.0)])
    multi = _mean([accuracy.get(name, 0.0) for name in MULTI_TURN])
    return {
        "non_live": non_live,
        "live": live,
        "irrelevance": irrelevance,
        "multi_turn": multi,
        "overall": 0.1 * live + 0.1 * non_live + 0.1 * irrelevance + 0.3 * multi,
    }


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
