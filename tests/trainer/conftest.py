"""One tiny random checkpoint for all tests of the trainer, and a fixture that restores torch settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.trainer.tiny_checkpoint import make_checkpoint


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A published checkpoint folder of a random model with its own tokenizer. Read only."""
    return make_checkpoint(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def torch_settings() -> Iterator[None]:
    """Restores what `use_threads` sets for the whole process."""
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(deterministic)
