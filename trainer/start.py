"""`require_start`: checks this machine before the first job, so that stage 1 does not fail after an hour of SFT."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

from config.model import Config, DataSection, ModelSection, RuntimeSection
from records.errors import ConfigError
from records.stages import RL_STAGES, TRAINED

_ON_DEVICE = {*TRAINED, "hard", "origin", "arm", "score"}
_EVALUATE = {"evaluate", "evaluate_late", "sampling_grid"}
_TRAINED = {*RL_STAGES, "hard", "origin", "arm"}
_WITH_TOOL = {"corpus", *RL_STAGES, "hard", "origin", "arm", *_EVALUATE}


def require_start(config: Config, rules: Collection[str]) -> None:
    """Raise ConfigError, in one line, for everything that a job of these rules would refuse."""
    faults = list(_faults(config, set(rules)))
    if faults:
        raise ConfigError("; ".join(faults))


def _faults(config: Config, rules: set[str]) -> Iterator[str]:
    if "data" in rules:
        yield from source_faults(config.data, config.runtime)
    if "base" in rules and config.model.path is not None and (fault := pretrained_fault(config.model)):
        yield fault
    data = config.runtime.paths.data
    if rules & _EVALUATE and data is not None and not Path(data).is_dir():
        yield f"runtime.paths.data = {data}: is not a folder; name the folder of the benchmark files, or null"
    if rules & _WITH_TOOL:
        for name in config.sandbox.preload:
            if importlib.util.find_spec(name.partition(".")[0]) is None:
                yield f"sandbox.preload: no module {name!r} here; install it, or remove it from the list"
    if rules & _TRAINED and config.rollout.engine.kind == "endpoint":
        yield (
            "rollout.engine.kind = endpoint: a server takes no new weights and returns text without ids, so it serves "
            "chat and evaluations only; set rollout.engine.kind to local, process or vllm"
        )
    if rules & _ON_DEVICE and config.runtime.device == "cuda" and not _sees_a_gpu():
        yield "runtime.device = cuda, but torch sees no GPU here; set runtime.device to cpu"


def source_faults(data: DataSection, runtime: RuntimeSection) -> Iterator[str]:
    """Why problems of this source are not available, one line for each part of it."""
    if data.kind == "own" and not Path(data.source).is_file():
        yield f"data.source = {data.source}: there is no such file; give the path of your problems"
    if data.kind != "recipe":
        return
    from config.recipes import load_recipe
    from trainer.data.sources import place_of

    try:
        recipe = load_recipe(data.source)
    except ConfigError as error:
        yield f"data.source = {data.source!r}: {error}"
        return
    folder = Path(runtime.paths.data) if runtime.paths.data is not None else None
    for source in recipe.sources:
        if fault := place_of(source, folder).fault:
            yield f"data.source = {data.source}: {fault}"


def pretrained_fault(model: ModelSection) -> str | None:
    """Why the pretrained checkpoint is not usable, or None."""
    folder = Path(model.path or "")
    if not (folder / "config.json").is_file():
        return f"model.path = {folder}: holds no config.json; give a Hugging Face checkpoint folder"
    if model.revision is None:
        return None
    found = downloaded_revision(folder)
    if found is None:
        return (
            f"model.revision = {model.revision}: {folder} has no download record to compare with; fetch it with "
            "`hf download --revision`, or set model.revision to null"
        )
    if not found.startswith(model.revision):
        return (
            f"model.revision = {model.revision}: {folder} was downloaded at {found}; fetch the other, or set "
            "model.revision to null"
        )
    return None


def downloaded_revision(folder: Path) -> str | None:
    """The commit of a folder made by `hf download --local-dir`, from the record that it writes for config.json."""
    record = folder / ".cache" / "huggingface" / "download" / "config.json.metadata"
    try:
        return record.read_text(encoding="utf-8").split("\n")[0].strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _sees_a_gpu() -> bool:
    """Runs in a separate process: torch would otherwise stay loaded in this one for the whole run."""
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0
