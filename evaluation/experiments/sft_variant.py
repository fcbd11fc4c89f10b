"""`make_origin`: an additional SFT checkpoint for arms: other seeds, or a teacher with other habits."""

from __future__ import annotations

from config.arms import load_arms
from config.commands import BASE, CORPUS, SFT, OriginView
from config.model import RuntimeSection
from evaluation.experiments.arm import link
from records.manifest import Manifest
from trainer.sft.corpus import build_corpus
from trainer.sft.sft import run_sft
from trainer.stages.base_checkpoint import make_base


def make_origin(name: str, view: OriginView, runtime: RuntimeSection) -> Manifest:
    """Train origins/NAME/checkpoints/sft with the run's documents and tokenizer, unless the teacher changes.

    Args:
        name: an origin of the arms file.
        view: its sections as the origin changes them.
        runtime: runtime section of the main run.
    """
    main = runtime.folder
    paths = runtime.paths.model_copy(update={"results": str(main.origins)})
    own = runtime.model_copy(update={"run": name, "paths": paths})
    folder = own.folder
    link(main.data, folder.data)
    if load_arms().origins[name].teaches_anew:
        build_corpus(CORPUS.of(view), own)
    else:
        link(main.corpus, folder.corpus)
    make_base(BASE.of(view), own)
    return run_sft(SFT.of(view), own)
