"""Mutation score of the pure modules: `python -m tests.mutants.score [--sample 20] [--seed 0]`.

Small changes of the code (a comparison, an operator, a constant, a condition, a returned value), each alone, in a copy
of the tree; the module's own tests must fail. mutmut is the known tool for this; it takes its settings from
pyproject.toml and imports torch anew for each mutant, here a fork shares it.
"""

from __future__ import annotations

import ast
import copy
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tests.mutants.__main__ import copy_tree, preload, run_tests

MODULES = ("advantage", "roc", "roc_release", "objective", "pack", "logprobs", "rows")
EXTRA_TESTS = ("tests/trainer/test_decisions.py",)
_COMPARE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_OPERATOR: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One mutant of a module."""

    line: int
    what: str
    source: str


def changes(source: str) -> Iterator[Change]:
    """Every mutant of a module's code; messages, annotations and record defaults are left alone.

    >>> [change.source for change in changes("def f(a): return a < 1")]
    ['def f(a):\\n    return None', 'def f(a):\\n    return a <= 1', 'def f(a):\\n    return a < 2']
    """
    tree = ast.parse(source)
    for index, node in enumerate(ast.walk(tree)):
        if not _inside_function(tree, node) or _is_guard(tree, node):
            continue
        for what in _kinds(node):
            mutant = copy.deepcopy(tree)
            twin = next(n for i, n in enumerate(ast.walk(mutant)) if i == index)
            _mutate(twin, what)
            yield Change(line=getattr(node, "lineno", 0), what=what, source=ast.unparse(mutant))


def _inside_function(tree: ast.Module, node: ast.AST) -> bool:
    """Code that runs in a function, not the text of an exception."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            for statement in function.body:
                inside = any(n is node for n in ast.walk(statement))
                if inside and not isinstance(statement, ast.Raise):
                    return not any(
                        isinstance(n, ast.Raise) and any(m is node for m in ast.walk(n))
                        for n in ast.walk(statement)
                    )
    return False


def _is_guard(tree: ast.Module, node: ast.AST) -> bool:
    """The `strict=True` of a zip: a second line of defence that tests cannot reach."""
    return any(isinstance(n, ast.keyword) and n.arg == "strict" and n.value is node for n in ast.walk(tree))


def _kinds(node: ast.AST) -> list[str]:
    match node:
        case ast.Compare() if type(node.ops[0]) in _COMPARE:
            return ["comparison"]
        case ast.BinOp() if type(node.op) in _OPERATOR:
            return ["operator"]
        case ast.BoolOp():
            return ["and/or"]
        case ast.UnaryOp(op=ast.Not()):
            return ["not"]
        case ast.Constant(value=bool()):
            return ["constant"]
        case ast.Constant(value=int() | float()):
            return ["constant"]
        case ast.If() | ast.IfExp():
            return ["condition"]
        case ast.Return(value=ast.expr()):
            return ["returned value"]
        case _:
            return []


def _mutate(node: ast.AST, what: str) -> None:
    match node:
        case ast.Compare():
            node.ops[0] = _COMPARE[type(node.ops[0])]()
        case ast.BinOp():
            node.op = _OPERATOR[type(node.op)]()
        case ast.BoolOp():
            node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        case ast.UnaryOp():
            node.op = ast.UAdd()
            node.operand = ast.Call(
                func=ast.Name(id="bool", ctx=ast.Load()), args=[node.operand], keywords=[]
            )
        case ast.Constant(value=bool(value)):
            node.value = not value
        case ast.Constant(value=int(value) | float(value)):
            node.value = value + 1
        case ast.If() | ast.IfExp():
            node.test = ast.UnaryOp(op=ast.Not(), operand=node.test)
        case ast.Return():
            node.value = ast.Constant(value=None)
        case _:
            raise AssertionError(what)


def main(
    modules: Annotated[
        list[str] | None, typer.Argument(help="Names such as roc; all pure modules without one.")
    ] = None,
    sample: Annotated[int, typer.Option(min=1, help="Mutants tried per module, drawn by the seed.")] = 20,
    seed: Annotated[int, typer.Option(help="Of the draw.")] = 0,
) -> None:
    """Print killed mutants, survivors and the score of each module."""
    chosen = modules or list(MODULES)
    if unknown := sorted(set(chosen) - set(MODULES)):
        print(f"error: {unknown[0]} is no pure module; there are {', '.join(MODULES)}")
        raise typer.Exit(2)
    preload()
    killed = tried = 0
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = Path(folder).resolve() / "tree"
        tree.mkdir()
        copy_tree(tree)
        for module in chosen:
            path = tree / "trainer" / f"{module}.py"
            source = path.read_text()
            every = list(changes(source))
            drawn = random.Random(seed).sample(every, min(sample, len(every)))
            tests = [f"tests/trainer/test_{module}.py", f"trainer/{module}.py", *EXTRA_TESTS]
            alive = [change for change in drawn if not _is_killed(tree, path, change, tests)]
            path.write_text(source)
            print(
                f"{module}: {len(drawn) - len(alive)} of {len(drawn)} killed ({len(every)} possible)",
                flush=True,
            )
            for change in alive:
                print(
                    f"    survived: line {change.line}, {change.what}: {source.splitlines()[change.line - 1].strip()}"
                )
            killed, tried = killed + len(drawn) - len(alive), tried + len(drawn)
    print(f"mutation score: {killed} / {tried} = {killed / max(tried, 1):.3f}")


def _is_killed(tree: Path, path: Path, change: Change, tests: list[str]) -> bool:
    """Any end but success kills: a mutant may also break the import."""
    path.write_text(change.source)
    return run_tests(tree, tests) != 0


if __name__ == "__main__":
    typer.run(main)
