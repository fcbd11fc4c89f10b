"""`run_sft`: non-reasoning SFT (paper section 4.1), which teaches format and tool use rather than long reasoning.

The loss covers assistant tokens only; it is summed and divided by one constant (tokens of an average batch), because a
per-batch mean would give short documents more weight. A killed job resumes; the seed decides the order of documents.
"""

from __future__ import annotations

import math
import random
import shutil
import time
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from transformers import PreTrainedModel

from config.commands import SftView
from config.model import RuntimeSection, SftSection
from records.errors import ConfigError
from records.files import sha256_of
from records.fingerprint import fingerprint
from records.manifest import Manifest, verify, write_folder
from records.run_folder import RunFolder
from records.seeds import derive_seed
from trainer.jobs.interrupt import StopSignal
from trainer.jobs.progress import Progress
from trainer.jobs.work_folder import WorkDir
from trainer.model import check_device, load_model, save_model, use_threads
from trainer.rollout.chat import chat_format
from trainer.rollout.sampler import most_positions, require_positions
from trainer.rollout.tokenizer import FolderCodec
from trainer.sft.conversations import corpus_rows
from trainer.sft.parallel_backward import accumulate
from trainer.stages.rl_job import copy_journal, copy_tokenizer, journal_seconds
from trainer.update.grpo import OPTIMIZER, WEIGHTS
from trainer.update.micro_batches import pad, padded_schedule
from trainer.update.optimizer import (
    adamw,
    load_optimizers,
    lr_factor,
    muon_and_adamw,
    save_optimizers,
    set_lr,
)
from trainer.update.scoring import score_batch
from trainer.update.training_rows import Row
from trainer.weights import put

FORMAT = 2
MICRO_BATCH_TOKENS = 1024
"""Padded tokens of one forward pass, more for a longer document; changes rounding only. Measured on the tiny model, 2
cores: 8192 in one thread 0.65 s an update, 1024 0.57 s (its activations stay in cache), 1024 in two threads 0.31 s."""

GRAD_CLIP = 1.0
"""Largest global gradient norm, as in the release's RL; the paper names none for SFT."""


class Sft:
    """Model, optimizers and rows; `update` makes one update."""

    def __init__(
        self, section: SftSection, model: PreTrainedModel, rows: Sequence[Row], num_threads: int = 1
    ) -> None:
        self.section, self.model, self.rows, self.num_threads = section, model, rows, num_threads
        make = muon_and_adamw if section.optimizer == "muon" else _adamw
        self.optimizers = make(model, lr=section.lr, betas=section.betas)
        self.num_updates = max(1, round(section.epochs * len(rows) / section.batch_size))
        self.tokens_per_batch = section.batch_size * sum(sum(row.mask) for row in rows) / len(rows)

    def update(self, number: int) -> dict[str, float]:
        """Make update `number` (from 1): forward, backward, clip, step."""
        batch = batch_of_update(self.rows, number, self.section.batch_size, self.section.seed)
        lengths = [len(row.ids) for row in batch]
        schedule = padded_schedule(lengths, max(MICRO_BATCH_TOKENS, *lengths), 0.1).micro_batches

        def forward(indices: tuple[int, ...]) -> tuple[torch.Tensor, tuple[float, int]]:
            scores = score_batch(self.model, pad(batch, indices), temperature=1.0)
            part = -scores.logprob_S.sum() / self.tokens_per_batch
            return part, (part.item(), scores.logprob_S.numel())

        counts = accumulate(list(self.model.parameters()), schedule, forward, self.num_threads)
        loss, tokens = sum(part for part, _ in counts), sum(count for _, count in counts)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), GRAD_CLIP).item()
        if not math.isfinite(norm):
            raise ConfigError(f"sft update {number}: the gradient norm is {norm}; lower sft.lr")
        warmup = round(self.section.warmup_frac * self.num_updates)
        lr = self.section.lr * lr_factor(number, self.num_updates, warmup, self.section.schedule)
        set_lr(self.optimizers, lr)
        for optimizer in self.optimizers:
            optimizer.step()
        return {
            "loss": loss * self.tokens_per_batch / max(tokens, 1),
            "grad_norm": norm,
            "lr": lr,
            "num_trained_tokens": tokens,
        }

    def save(self, folder: Path) -> None:
        save_file({n: p.detach().contiguous() for n, p in self.model.named_parameters()}, folder / WEIGHTS)
        save_optimizers(self.optimizers, folder / OPTIMIZER)

    def load(self, folder: Path) -> None:
        put(load_file(folder / WEIGHTS), self.model)
        load_optimizers(self.optimizers, folder / OPTIMIZER)


def _adamw(model: PreTrainedModel, *, lr: float, betas: list[float]) -> list:
    return [adamw(model, lr=lr, betas=betas, weight_decay=0.0)]


def batch_of_update(rows: Sequence[Row], number: int, batch_size: int, seed: int) -> list[Row]:
    """Rows of one update, taken in sequence from one permutation per epoch."""
    first = (number - 1) * batch_size
    epochs = range(first // len(rows), (first + batch_size - 1) // len(rows) + 1)
    order = [row for epoch in epochs for row in _permutation(len(rows), epoch, seed)]
    start = first - epochs.start * len(rows)
    return [rows[i] for i in order[start : start + batch_size]]


@lru_cache(maxsize=2)
def _permutation(num_rows: int, epoch: int, seed: int) -> list[int]:
    permutation = list(range(num_rows))
    random.Random(derive_seed(seed, "sft", epoch)).shuffle(permutation)
    return permutation


def run_sft(view: SftView, runtime: RuntimeSection) -> Manifest:
    """Train checkpoints/sft from checkpoints/base."""
    use_threads(runtime)
    folder = runtime.folder
    parent_folder = folder.checkpoint("base")
    parent, corpus = verify(parent_folder), verify(folder.corpus)
    chat, codec = chat_format(view.rollout), FolderCodec.load(parent_folder)
    found = corpus_rows(folder.corpus, chat, codec, most_positions(parent_folder))
    rows = found.rows
    require_documents(rows, parent_folder, folder.corpus)
    if found.num_too_long:
        print(
            f"{folder.corpus}: {found.num_too_long:,} conversations are longer than the model's context, left out"
        )
    stop = StopSignal()
    with WorkDir.open(
        folder.work("sft"), fingerprint(FORMAT, view.record, parent.digest, corpus.digest)
    ) as work:
        device = check_device(runtime)
        num_threads = runtime.micro_batches if device.type == "cpu" else 1
        sft = Sft(view.sft, load_model(parent_folder, device), rows, num_threads)
        _loop(sft, work, stop, runtime.save_every_s)
        return _publish(sft, work, folder, parent, parent_folder, corpus, view, found.num_too_long)


def require_documents(rows: Sequence[Row], checkpoint: Path, documents: Path) -> None:
    """Raise ConfigError when there are no documents, or a document exceeds the model's context."""
    if not any(any(row.mask) for row in rows):
        raise ConfigError(
            f"{documents}: holds no document with an assistant turn; run `python -m trainer corpus` again"
        )
    longest = max(rows, key=lambda row: len(row.ids))
    require_positions(checkpoint, len(longest.ids), f"document {longest.group!r} takes")


def _loop(sft: Sft, work: WorkDir, stop: StopSignal, save_every_s: float) -> None:
    number = 0
    newest = work.newest()
    if newest is not None:
        number, state = newest
        sft.load(state)
        print(f"{work.path}: resumes from the state of update {number}", flush=True)
    work.begin_attempt(number)
    with Progress.show("sft", sft.num_updates, number) as progress:
        while number < sft.num_updates:
            number += 1
            began = time.monotonic()
            metrics = sft.update(number)
            work.append("metrics", metrics | {"step": number, "stage": "sft"})
            work.append("timing", {"step": number, "stage": "sft", "step_s": time.monotonic() - began})
            if work.unsaved_s >= save_every_s or number == sft.num_updates or stop.requested:
                work.save(number, sft.save)
            progress.advance(note=f"loss {metrics['loss']:.3f}")
            if stop.requested and number < sft.num_updates:
                stop.leave()


def _publish(
    sft: Sft,
    work: WorkDir,
    folder: RunFolder,
    parent: Manifest,
    parent_folder: Path,
    corpus: Manifest,
    view: SftView,
    num_too_long: int,
) -> Manifest:
    work.require_whole(sft.num_updates)
    copy_journal(work, "metrics", folder.metrics("sft"))
    copy_journal(work, "timing", folder.timing("sft"))
    made = work.path / "export"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    copy_tokenizer(parent, parent_folder, made)
    save_model(sft.model, made)
    lengths = [len(row.ids) for row in sft.rows]
    return write_folder(
        folder.checkpoint("sft"),
        made,
        {
            "stage": "sft",
            "parent": parent.digest,
            "data": corpus.digest,
            "sections": view.record,
            "steps": sft.num_updates,
            "facts": {
                "rl_steps": 0,
                "document_tokens_mean": sum(lengths) / len(lengths),
                "document_tokens_max": max(lengths),
                "num_too_long": num_too_long,
                "metrics_sha256": sha256_of(folder.metrics("sft")),
            },
        },
        {
            "num_attempts": work.num_attempts(),
            "finished_unix_s": time.time(),
            "seconds": journal_seconds(folder.timing("sft")),
        },
    )
