"""`race`: the trainer against TRL's GRPOTrainer, on one model and batch, after a comparison of loss and gradients.

TRL runs its own `train()`; the suite runs after each of TRL's optimizer steps, so rounds are interleaved on one
machine. Threads, type of the products, AdamW and clip are equal; TRL uses the best of the tried numbers of rows per
micro-batch. There are two workloads: lengths recorded in a run (ragged, several turns, tool text masked), and as many
rows of one length. There are two races: the update alone, on given rollouts; and the whole step, in which each side
samples with its own generator as many tokens per row as recorded, then updates. Times are CPU seconds of this process,
which excludes other processes.

`python -m bench.trl_race --json` requires the extra `race`; without it the command reports that in one line.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import torch
import typer

from config.resolve import resolve
from trainer.engines.local import LocalEngine
from trainer.engines.protocol import LiveWeights
from trainer.engines.requests import GenerateRequest
from trainer.update.grpo import GrpoTrainer, UpdateBatch, UpdateMetrics
from trainer.update.training_rows import Row
from trainer.weights import read_model

LENGTHS = Path(__file__).resolve().parents[1] / "results" / "baselines" / "rollout_lengths.json"
CPU = torch.device("cpu")
LR = 1e-6
END = 2
"""Id of the end-of-turn token of SmolLM2; every recorded row ends with it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Lengths of one rollout, in tokens."""

    group: str
    prompt: int
    runs: tuple[int, ...]
    """Sampled and tool text in alternation; the first and the last are sampled."""

    @property
    def response(self) -> int:
        return sum(self.runs)


@dataclass(slots=True)
class Laps:
    """CPU seconds of the rounds that count."""

    suite: list[float] = field(default_factory=list)
    trl: list[float] = field(default_factory=list)


def recorded(num_rows: int) -> list[Shape]:
    """The first rows of the recorded lengths, as whole groups."""
    rows = json.loads(LENGTHS.read_text(encoding="utf-8"))["rows"]
    return [Shape(group=r["group"], prompt=r["prompt"], runs=tuple(r["runs"])) for r in rows[:num_rows]]


def equal(shapes: Sequence[Shape]) -> list[Shape]:
    """As many rows with the mean lengths, all sampled.

    >>> equal([Shape(group="a", prompt=2, runs=(3,)), Shape(group="a", prompt=4, runs=(1, 1, 5))])[1]
    Shape(group='a', prompt=3, runs=(5,))
    """
    prompt = round(sum(shape.prompt for shape in shapes) / len(shapes))
    response = round(sum(shape.response for shape in shapes) / len(shapes))
    return [Shape(group=shape.group, prompt=prompt, runs=(response,)) for shape in shapes]


def rows_of(shapes: Sequence[Shape], vocab: int) -> list[Row]:
    """Random ids of these lengths; rows of a group share their prompt, the last token ends the turn."""
    generator = torch.Generator().manual_seed(0)
    prompts: dict[str, list[int]] = {}
    rows = []
    for number, shape in enumerate(shapes):
        if shape.group not in prompts:
            prompts[shape.group] = torch.randint(100, vocab, (shape.prompt,), generator=generator).tolist()
        prompt = prompts[shape.group]
        own = torch.randint(100, vocab, (shape.response,), generator=generator).tolist()
        mask = [False] * len(prompt)
        for turn, length in enumerate(shape.runs):
            mask += [turn % 2 == 0] * length
        rows.append(
            Row(
                ids=[*prompt, *own[:-1], END],
                mask=mask,
                logprob=[-1.0 * on for on in mask],
                advantage=float(number % 4 == 0) - 0.25,
                group=shape.group,
            )
        )
    return rows


def trl_padding_frac(rows: Sequence[Row]) -> float:
    """Padding of TRL: prompts on the left and responses on the right, each to the longest of the batch."""
    prompts = [row.mask.index(True) for row in rows]
    longest = max(prompts) + max(len(row.ids) - prompt for row, prompt in zip(rows, prompts, strict=True))
    return 1 - sum(len(row.ids) for row in rows) / (len(rows) * longest)


class Suite:
    """This suite's trainer and engine."""

    def __init__(self, checkpoint: Path, rows: list[Row], compute: str, micro_batch_tokens: int) -> None:
        section = resolve().objective
        optimizer = section.optimizer.model_copy(update={"betas": [0.9, 0.999], "weight_decay": 0.0})
        changes = {"layout": "packed", "compute": compute, "micro_batch_tokens": micro_batch_tokens}
        self.trainer = GrpoTrainer(
            checkpoint, section.model_copy(update=changes | {"optimizer": optimizer}), CPU
        )
        self.rows = rows

    def update(self) -> UpdateMetrics:
        return self.trainer.update(UpdateBatch(rows=self.rows, lr=LR))

    def step(self) -> UpdateMetrics:
        """Sample as many tokens per row as recorded, update, send the weights to the engine."""
        prompts = [row.ids[: row.mask.index(True)] for row in self.rows]
        lengths = [len(row.ids) - len(prompt) for row, prompt in zip(self.rows, prompts, strict=True)]
        engine = LocalEngine(
            engine=0, capacity_tokens=sum(len(row.ids) for row in self.rows) + 64 * len(self.rows),
            max_len=max(len(row.ids) for row in self.rows),
        )  # fmt: skip
        engine.take_weights(LiveWeights(self.trainer.export_weights(), self.trainer.model.config), 0)
        for i, (prompt, length) in enumerate(zip(prompts, lengths, strict=True)):
            engine.submit(
                GenerateRequest(
                    ids=list(prompt),
                    max_new=length,
                    seed=i,
                    stop_ids=(),
                    temperature=1.0,
                    session=str(i),
                    policy_version=0,
                )
            )
        sampled: list[Row] = []
        while len(sampled) < len(self.rows):
            for completion in engine.advance():
                row, prompt = self.rows[int(completion.session)], prompts[int(completion.session)]
                sampled.append(
                    Row(
                        ids=[*prompt, *completion.ids],
                        mask=[False] * len(prompt) + [True] * len(completion.ids),
                        logprob=[0.0] * len(prompt) + list(completion.logprobs),
                        advantage=row.advantage,
                        group=row.group,
                    )
                )
        return self.trainer.update(UpdateBatch(rows=sampled, lr=LR))


class Trl:
    """TRL's trainer on the same rows; `train` runs some steps and reports the seconds of each."""

    def __init__(
        self, checkpoint: Path, rows: list[Row], compute: str, per_device: int, sample: bool, folder: Path
    ) -> None:
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

        group = [row.group for row in rows].count(rows[0].group)
        prompts = [row.mask.index(True) for row in rows]
        config = GRPOConfig(
            output_dir=str(folder), use_cpu=True, bf16=compute == "bfloat16", loss_type="dapo", beta=0.0,
            epsilon=0.2, epsilon_high=0.28, scale_rewards="none", temperature=1.0, top_p=1.0, top_k=0,
            num_generations=group, per_device_train_batch_size=per_device,
            gradient_accumulation_steps=len(rows) // per_device, gradient_checkpointing=False,
            max_completion_length=max(len(r.ids) - p for r, p in zip(rows, prompts, strict=True)),
            learning_rate=LR, lr_scheduler_type="constant", weight_decay=0.0, max_grad_norm=1.0,
            optim="adamw_torch", shuffle_dataset=False, report_to="none", save_strategy="no",
            logging_strategy="steps", logging_steps=1, disable_tqdm=True, seed=0,
        )  # fmt: skip
        self.rows, self.prompts = rows, prompts
        model = read_model(checkpoint, dtype=torch.float32)
        self.trainer = GRPOTrainer(
            model=model,
            reward_funcs=self._reward,
            args=config,
            train_dataset=Dataset.from_list([{"prompt": row.group} for row in rows[::group]] * 64),
            processing_class=tokenizer_of(model.config.vocab_size),
            rollout_func=None if sample else self._recorded,
        )
        if sample:
            self._sample_as_recorded(model)

    def train(
        self, steps: int, after: Callable[[int, float], None], gradient: Callable[[Any], None] | None = None
    ) -> list[dict[str, float]]:
        """Run `steps` steps; calls `after(step, seconds)` when one is done. Returns TRL's log."""
        from transformers import TrainerCallback

        class Watch(TrainerCallback):
            began = 0.0

            def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                self.began = time.process_time()

            def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
                if gradient is not None and state.global_step == 0:
                    gradient(kwargs["model"])

            def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
                after(state.global_step, time.process_time() - self.began)

        self.trainer.args.max_steps = steps
        self.trainer.add_callback(Watch())
        self.trainer.train()
        return self.trainer.state.log_history

    def _recorded(self, prompts: list[Any], trainer: Any) -> dict[str, list[Any]]:
        """Return the given rollouts instead of sampled ones."""
        pairs = list(zip(self.rows, self.prompts, strict=True))
        return {
            "prompt_ids": [row.ids[:prompt] for row, prompt in pairs],
            "completion_ids": [row.ids[prompt:] for row, prompt in pairs],
            "logprobs": [[[p] for p in row.logprob[prompt:]] for row, prompt in pairs],
            "env_mask": [[int(on) for on in row.mask[prompt:]] for row, prompt in pairs],
        }

    def _reward(self, prompts: list[Any], **_: Any) -> list[float]:
        """Row rewards: TRL subtracts the group mean, so rows of a group have advantages of mean 0."""
        return [row.advantage for row in self.rows]

    def _sample_as_recorded(self, model: Any) -> None:
        """Make `generate` end row i after as many tokens as recorded."""
        from transformers import LogitsProcessor

        rows, prompts = self.rows, self.prompts
        width = max(prompts)

        class Lengths(LogitsProcessor):
            def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
                made = input_ids.shape[1] - width
                last = torch.tensor([len(r.ids) - p - 1 == made for r, p in zip(rows, prompts, strict=True)])
                scores = scores.clone()
                scores[:, END] = torch.where(last, 0.0, -torch.inf)
                others = torch.arange(scores.shape[1]) != END
                return scores.masked_fill(last[:, None] & others, -torch.inf)

        generate = model.generate
        model.generate = lambda *args, **kwargs: generate(*args, logits_processor=[Lengths()], **kwargs)
        ids = {row.group: row.ids[:prompt] for row, prompt in zip(rows, prompts, strict=True)}
        self.trainer._tokenize_prompts = lambda asked: ([ids[group] for group in asked], None, {})


def tokenizer_of(vocab_size: int) -> Any:
    """A placeholder tokenizer for TRL; it never encodes text."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    vocab = {f"<{i}>": i for i in range(vocab_size)}
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocab, unk_token="<0>")), eos_token="<2>", pad_token="<0>"
    )


def a_checkpoint(folder: Path) -> Path:
    """A random model of SmolLM2-135M's shape: speed does not depend on the values of the weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=8192, rope_parameters={"rope_type": "default",
        "rope_theta": 100000.0}, tie_word_embeddings=True, bos_token_id=1, eos_token_id=END, pad_token_id=END,
    )  # fmt: skip
    LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)  # pyright: ignore[reportArgumentType]
    return folder


def check_equal(suite: Suite, trl: Trl) -> dict[str, float]:
    """Relative differences after one step of each from the same weights: loss, norm and clipped gradient."""
    trl_grads: dict[str, torch.Tensor] = {}

    def keep(model: Any) -> None:
        trl_grads.update({n: p.grad.clone() for n, p in model.named_parameters()})

    log = trl.train(1, lambda step, seconds: None, keep)
    metrics = suite.update()
    difference = total = 0.0
    for name, parameter in suite.trainer.model.named_parameters():
        assert parameter.grad is not None
        difference += (parameter.grad - trl_grads[name]).double().square().sum().item()
        total += trl_grads[name].double().square().sum().item()
    return {
        "loss": metrics.loss,
        "loss_trl": log[0]["loss"],
        "grad_norm": metrics.grad_norm,
        "grad_norm_trl": log[0]["grad_norm"],
        "gradient_difference": (difference / total) ** 0.5,
    }


def race(
    checkpoint: Path, rows: list[Row], compute: str, settings: Sequence[int], rounds: int, sample: bool
) -> dict[str, Any]:
    """Seconds of `rounds` interleaved rounds, TRL at the best of `settings` rows per micro-batch."""
    most = sum(len(row.ids) for row in rows)
    suite = Suite(checkpoint, rows, compute, micro_batch_tokens=max(most // 2, max(len(r.ids) for r in rows)))
    tried: dict[int, Laps] = {}
    shown: UpdateMetrics = suite.update()
    for per_device in settings:
        laps = tried[per_device] = Laps()

        def turn(step: int, seconds: float, laps: Laps = laps) -> None:
            nonlocal shown
            began = time.process_time()
            shown = suite.step() if sample else suite.update()
            # The first round of each side includes first allocations.
            if step > 1:
                laps.trl.append(seconds)
                laps.suite.append(time.process_time() - began)

        with tempfile.TemporaryDirectory() as folder:
            Trl(checkpoint, rows, compute, per_device, sample, Path(folder)).train(rounds + 1, turn)
    best = min(tried, key=lambda per_device: median(tried[per_device].trl))
    laps = tried[best]
    return {
        "rows": len(rows),
        "tokens": most,
        "sampled_tokens": sum(sum(row.mask) for row in rows),
        "trl_rows_per_micro_batch": best,
        "trl_s_by_setting": {str(n): [round(s, 3) for s in tried[n].trl] for n in settings},
        "trl_s": laps.trl,
        "ours_s": laps.suite,
        "ratio": median(trl / suite for trl, suite in zip(laps.trl, laps.suite, strict=True)),
        "padding_frac": shown.padding_frac,
        "shared_frac": shown.shared_frac,
        "trl_padding_frac": trl_padding_frac(rows),
    }


def main(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Checkpoint folder; default: a random model of SmolLM2-135M's shape.")
    ] = None,
    compute: Annotated[str, typer.Option(help="float32 or bfloat16 products.")] = "float32",
    num_rows: Annotated[int, typer.Option(help="Rows of the batch: whole groups of the record.")] = 8,
    rounds: Annotated[int, typer.Option(help="Rounds that count, after one that does not.")] = 2,
    threads: Annotated[int, typer.Option(help="torch threads of both.")] = 1,
    same: Annotated[bool, typer.Option(help="Compare loss and gradients first.")] = True,
    updates: Annotated[bool, typer.Option(help="Race the update.")] = True,
    steps: Annotated[bool, typer.Option(help="Race whole steps too.")] = True,
    trl_rows: Annotated[
        list[int] | None,
        typer.Option(help="Rows per micro-batch that TRL tries; default: all and a quarter."),
    ] = None,
    lengths: Annotated[str, typer.Option(help="ragged, equal or both.")] = "both",
) -> None:
    """Race against TRL; exit status 0 with one line if the extra `race` is missing."""
    if find_spec("trl") is None:
        typer.echo("not raced: TRL is not installed; pip install -c constraints.txt '.[race]'")
        return
    import transformers
    import trl

    torch.set_num_threads(threads)
    shapes = recorded(num_rows)
    workloads = {"ragged": shapes, "equal": equal(shapes)}
    record: dict[str, Any] = {
        "compute": compute,
        "threads": threads,
        "load": os.getloadavg()[0],
        "versions": {
            "python": platform.python_version(), "torch": torch.__version__,
            "transformers": transformers.__version__, "trl": trl.__version__,
        },
    }  # fmt: skip
    # TRL prints its step logs, so standard output is reserved for the record.
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(sys.stderr):
        model = checkpoint or a_checkpoint(Path(folder))
        vocab = json.loads((model / "config.json").read_text(encoding="utf-8"))["vocab_size"]
        for name, workload in workloads.items():
            if lengths not in (name, "both"):
                continue
            rows = rows_of(workload, vocab)
            settings = trl_rows or [len(rows), max(len(rows) // 4, 1)]
            found = record[name] = {}
            if same:
                with tempfile.TemporaryDirectory() as out:
                    peer = Trl(model, rows, compute, len(rows), False, Path(out))
                    found["same"] = check_equal(Suite(model, rows, compute, 1 << 20), peer)
            if updates:
                found["update"] = race(model, rows, compute, settings, rounds, False)
            if steps:
                found["step"] = race(model, rows, compute, settings[:1], rounds, True)
    typer.echo(json.dumps(record, indent=None if as_json else 1))


if __name__ == "__main__":
    typer.run(main)
