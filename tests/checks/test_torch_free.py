from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.checks import torch_free

Checkout = Callable[[dict[str, str]], Path]


def test_a_module_that_imports_torch_is_named(checkout: Checkout) -> None:
    # A stand-in of that name: loading the real one would take seconds.
    files = {"torch.py": "", "verifier/__init__.py": "", "verifier/a.py": "", "verifier/b.py": "import torch"}
    root = checkout(files)
    assert torch_free.problems(root) == ["verifier.b: importing it imports torch"]


def test_a_module_that_cannot_be_imported_is_a_finding(checkout: Checkout) -> None:
    (found,) = torch_free.problems(checkout({"config/__init__.py": "import no_such_module"}))
    assert "no_such_module" in found


def test_torch_inside_a_function_or_in_the_trainer_passes(checkout: Checkout) -> None:
    lazy = "def load():\n    import torch\n    return torch\n"
    root = checkout({"torch.py": "", "sandbox/a.py": lazy, "trainer/loop.py": "import torch"})
    assert torch_free.problems(root) == []


def test_the_pure_modules_of_the_trainer_are_looked_at(project_root: Path) -> None:
    names = torch_free.modules(project_root)
    assert {
        "records.trajectory",
        "trainer.selection.roc",
        "trainer.scheduling.policy",
        "records.tool_call",
    } <= set(names)
