"""`talk`: a conversation with a checkpoint in a terminal; each question is one rollout, printed in pieces."""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.panel import Panel

from config.commands import SamplingView
from config.model import RuntimeSection
from records.manifest import MANIFEST, verify
from records.problem import Problem
from records.trajectory import Rollout
from trainer.model import use_threads
from trainer.rollout.chat import TURN_END
from trainer.rollout.sampler import Sampler, open_sampler
from trainer.rollout.task import RolloutSettings, Task
from trainer.rollout.tool import limits_of


def talk(
    checkpoint: Path, view: SamplingView, runtime: RuntimeSection, *, question: str | None, temperature: float
) -> None:
    """Answer `question`, or each line until the end of input."""
    use_threads(runtime)
    if (checkpoint / MANIFEST).exists():
        verify(checkpoint)
    settings = RolloutSettings(
        run="chat",
        checkpoint=checkpoint.name,
        benchmark="chat",
        max_prompt=view.eval.max_prompt,
        max_response=view.eval.max_response,
        max_turns=view.eval.max_turns,
        temperature=temperature,
        top_p=1.0,
        seed=view.eval.seed,
        policy_version=0,
        limits=limits_of(view.sandbox),
        rejoin_iterations=None,
    )
    console = Console(highlight=False)
    with open_sampler(checkpoint, view.rollout, view.sandbox, settings, runtime) as sampler:
        sampler.load(checkpoint)
        if question is not None:
            _answer(console, sampler, question, 0)
            return
        for number, line in enumerate(iter(_read_line, None)):
            if line.strip():
                _answer(console, sampler, line.strip(), number)


def _read_line() -> str | None:
    """One question from the terminal or a pipe; None at the end."""
    if sys.stdin.isatty():
        print("question> ", end="", flush=True)
    return sys.stdin.readline() or None


def _answer(console: Console, sampler: Sampler, question: str, number: int) -> None:
    problem = Problem(id=f"q{number}", prompt=question, answer="")
    (pair,) = sampler.run([Task(problem=problem, sample=0)], policy_version=0)
    show(console, pair[0], question, sampler)


def show(console: Console, rollout: Rollout, question: str, sampler: Sampler) -> None:
    """Print one rollout: sampled turns, and between them the text that the model received."""
    console.print(Panel(escape(question), title="question"))
    if not rollout.turns:
        console.print(f"[yellow]{escape(rollout.detail)}[/yellow]")
        return
    for turn, following in zip(rollout.turns, [*rollout.turns[1:], None], strict=True):
        console.print(escape(f"<reason>{turn.text.removesuffix(TURN_END)}"))
        end = following.start if following is not None else len(rollout.ids)
        shown = sampler.codec.decode(rollout.ids[turn.end : end])
        if shown.strip():
            console.print(f"[dim]{escape(shown.strip().removesuffix('<reason>'))}[/dim]")
    console.print(
        f"[dim]stop: {rollout.stop.value}, {len(rollout.turns)} turns, {rollout.response_len} tokens[/dim]"
    )
