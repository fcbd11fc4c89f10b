"""`WeightsStore`: the newest weights of a model in this process as a folder, for engines in processes of their own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoConfig

from records.files import write_text
from trainer.engines.protocol import LiveWeights
from trainer.weights import HEAD

_SHARED_MEMORY = Path("/dev/shm")
_TENSORS, _CONFIG = "model.safetensors", "config.json"


class WeightsStore:
    """Holds one version; every engine of a sampler reads the same folder, which a restarted one reads again.

    The folder lies in shared memory where twice the weights fit there: the old version is removed after the new one is
    written. Engines read it through the page cache, so there is one copy of it in memory.
    """

    def __init__(self) -> None:
        self._root: Path | None = None
        self._newest: tuple[int, LiveWeights] | None = None
        self._folder: Path | None = None

    def folder(self, weights: LiveWeights, version: int) -> Path:
        """Where the weights lie. Several engines that ask for the same version share one copy."""
        if self._folder is not None and self._newest is not None:
            newest, written = self._newest
            if newest == version and written is weights:
                return self._folder
        if self._root is None:
            self._root = Path(tempfile.mkdtemp(prefix="rstar2-weights-", dir=_place(weights.tensors)))
        folder = Path(tempfile.mkdtemp(prefix=f"{version}-", dir=self._root))
        whole = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.tensors.items()}
        if weights.config.tie_word_embeddings:
            whole.pop(HEAD, None)  # it is the embedding, and safetensors does not write that twice
        save_file(whole, folder / _TENSORS)
        write_text(folder / _CONFIG, weights.config.to_json_string(use_diff=False))
        old, self._folder, self._newest = self._folder, folder, (version, weights)
        if old is not None:
            shutil.rmtree(old)
        return folder

    def close(self) -> None:
        """Remove the folder."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)


def read_weights(folder: Path) -> LiveWeights:
    """The weights of a `WeightsStore`. Runs no code of the folder."""
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    return LiveWeights(load_file(folder / _TENSORS), config)


def _place(tensors: Mapping[str, Tensor]) -> Path | None:
    """Shared memory, or None for the place of temporary files."""
    needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    try:
        free = shutil.disk_usage(_SHARED_MEMORY).free
    except OSError:
        return None
    return _SHARED_MEMORY if free > 2 * needed else None
