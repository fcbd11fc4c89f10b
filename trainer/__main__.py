"""`python -m trainer COMMAND`: from problems to checkpoints, and what a checkpoint can be asked.

Each command reads the sections it declares and nothing else. Long ones resume where they were killed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from config.command import fail, one_line_errors, read_sections
from config.options import ConfigOption, RuntimeOption, SectionsOption, SetOption
from records.garbage import collect_rarely
from records.repository_module import run_bench_module

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Trains the policy and asks it.",
)

SECTIONS = {
    "prepare": ("data",),
    "corpus": ("data", "sandbox", "rollout", "sft.noise"),
    "base": ("model", "rollout"),
    "sft": ("rollout", "sft"),
    "rl1": ("sandbox", "rollout", "objective", "rl.rl1"),
    "rl2": ("sandbox", "rollout", "objective", "rl.rl2"),
    "rl3": ("sandbox", "rollout", "objective", "rl.rl3"),
    "filter": ("sandbox", "rollout", "objective", "rl.rl2", "rl.filter"),
    "score": ("analysis",),
    "chat": ("sandbox", "rollout", "eval"),
}
"""What each command may read; the rules pass exactly these."""


@app.command()
def prepare(
    sections: SectionsOption = None,
    runtime: RuntimeOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Draw the problems of every split."""
    with one_line_errors():
        view, where = read_sections(
            SECTIONS["prepare"], sections=sections, runtime=runtime, config=config, overrides=set_
        )
        from trainer.problems.prepare import prepare as run

        _say(run(view.data, where).facts)


@app.command()
def corpus(
    sections: SectionsOption = None,
    runtime: RuntimeOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Let the teacher write the SFT documents, with real tool results."""
    with one_line_errors():
        view, where = read_sections(
            SECTIONS["corpus"], sections=sections, runtime=runtime, config=config, overrides=set_
        )
        from trainer.sft.corpus import build_corpus

        _say(build_corpus(view, where).facts)


@app.command()
def base(
    sections: SectionsOption = None,
    runtime: RuntimeOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Make the base checkpoint: random with a tokenizer of its own, or a pretrained folder."""
    with one_line_errors():
        view, where = read_sections(
            SECTIONS["base"], sections=sections, runtime=runtime, config=config, overrides=set_
        )
        from trainer.stages.base_checkpoint import make_base

        _say(make_base(view, where).facts)


@app.command()
def sft(
    sections: SectionsOption = None,
    runtime: RuntimeOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Non-reasoning SFT from the base checkpoint."""
    with one_line_errors():
        view, where = read_sections(
            SECTIONS["sft"], sections=sections, runtime=runtime, config=config, overrides=set_
        )
        from trainer.sft.sft import run_sft

        _say(run_sft(view, where).facts)


@app.command()
def rl(
    stage: Annotated[int, typer.Option(help="1, 2 or 3.", min=1, max=3)],
    sections: SectionsOption = None,
    runtime: RuntimeOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """One RL stage with GRPO-RoC from the checkpoint of the stage before."""
    with one_line_errors():
        name = f"rl{stage}"
        view, where = read_sections(
            SECTIONS[name], sections=sections, runtime=runtime, config=config, overrides=set_
        )
        from trainer.problems.prepare import load_split, pool_digest
        from trainer.stages.hard_filter import load_hard
        from trainer.stages.rl_job import run_stage

        section = getattr(view.rl, name)
        pool = load_hard(where) if section.pool == "hard" else load_split(where, "train")
        _say(run_stage(name, view, where, pool, pool_digest(pool)).facts)


@app.command("filter-hard")
def filter_hard(
    sections: SectionsOption = None,
    runtime: RuntimeOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Keep the problems that the stage-2 policy does not solve in every rollout."""
    with one_line_errors():
        view, where = read_sections(
            SECTIONS["filter"], sections=sections, runtime=runtime, config=config, overrides=set_
        )
        from trainer.stages.hard_filter import filter_hard as run

        _say(run(view, where).facts)


@app.command()
def score(
    checkpoint: Annotated[Path, typer.Option(help="Checkpoint folder.")],
    samples: Annotated[Path, typer.Option(help="samples.parquet of an evaluation.")],
    out: Annotated[Path, typer.Option(help="Folder for tokens.parquet and its manifest.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished table in OUT.")] = False,
    sections: SectionsOption = None,
    runtime: RuntimeOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Token table: entropy, log-prob and rank by one teacher-forced pass over stored ids."""
    with one_line_errors():
        view, where = read_sections(
            SECTIONS["score"], sections=sections, runtime=runtime, config=config, overrides=set_
        )
        from records.finished_results import refuse_to_replace
        from trainer.metrics.token_table import score_samples

        refuse_to_replace(out / "manifest.json", overwrite=overwrite)
        _say(score_samples(checkpoint, samples, out, view.analysis, where).facts)


@app.command()
def chat(
    checkpoint: Annotated[Path, typer.Option(help="Checkpoint folder.")],
    question: Annotated[str | None, typer.Option(help="Ask once and leave; else questions are read.")] = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.", min=0.0)] = 0.0,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Talk to a checkpoint; shows reasons, tool calls, tool responses and the answer."""
    with one_line_errors():
        view, where = read_sections(
            SECTIONS["chat"], sections=None, runtime=None, config=config, overrides=set_
        )
        from trainer.rollout.terminal_chat import talk

        talk(checkpoint, view, where, question=question, temperature=temperature)


@app.command()
def inspect(
    data: Annotated[
        Path, typer.Argument(help="SFT documents (.jsonl), problems (.jsonl) or trajectories (.parquet).")
    ],
    checkpoint: Annotated[
        Path | None, typer.Option(help="Whose tokenizer shows documents as tokens.")
    ] = None,
    count: Annotated[int, typer.Option(help="Rows to show.", min=1)] = 3,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Show rows with the mask that training uses."""
    with one_line_errors():
        view, _ = read_sections(SECTIONS["base"], sections=None, runtime=None, config=config, overrides=set_)
        from trainer.inspect_data import show

        show(data, checkpoint, count, view.rollout)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
def schedule(context: typer.Context) -> None:
    """Scheduler study in the simulator: every policy on the same workloads (`bench.schedule`, not installed)."""
    raise typer.Exit(run_bench_module("bench.schedule", context.args))


@app.command()
def doctor(
    preset: Annotated[str, typer.Option(help="tiny, micro, smol, small, released or paper.")] = "tiny",
) -> None:
    """What a preset needs and what this machine has; exit status 1 when something is missing."""
    with one_line_errors():
        from trainer.doctor import examine

        findings = examine(preset)
        for finding in findings:
            typer.echo(finding.line())
        if not all(finding.ok for finding in findings):
            raise SystemExit(1)


@app.command()
def export(
    checkpoint: Annotated[Path, typer.Option(help="Checkpoint folder.")],
    out: Annotated[Path, typer.Option(help="New folder.")],
    dtype: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "bfloat16",
    untie: Annotated[
        bool, typer.Option("--untie", help="Write the output head apart from the embeddings.")
    ] = False,
) -> None:
    """Copy a checkpoint in another number format, without optimizer state."""
    with one_line_errors():
        from trainer.stages.export import export as run

        if dtype not in ("float32", "bfloat16", "float16"):
            fail(f"--dtype {dtype}: must be float32, bfloat16 or float16")
        run(checkpoint, out, dtype=dtype, untie=untie)


def _say(facts: dict[str, Any]) -> None:
    import json

    typer.echo(json.dumps(facts, sort_keys=True))


if __name__ == "__main__":
    collect_rarely()
    app()
