"""`python -m trainer COMMAND`: from problems to checkpoints, and what a checkpoint can be asked.

Each command reads the sections it declares and nothing else. Long ones resume where they were killed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from config.command import fail, one_line_errors, read_sections
from config.options import ConfigOption, RuntimeOption, SectionsOption, SetOption

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


def _read(
    declared: Sequence[str],
    sections: str | None,
    runtime: str | None,
    config: Any,
    overrides: Any,
    change: Any = None,
) -> tuple[Any, Any]:
    return read_sections(
        declared,
        sections=sections,
        runtime=runtime,
        config=config or [],
        overrides=overrides or [],
        change=change,
    )


@app.command()
def prepare(
    sections: SectionsOption = None,
    runtime: RuntimeOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Draw the problems of every split."""
    with one_line_errors():
        view, where = _read(SECTIONS["prepare"], sections, runtime, config, set_)
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
        view, where = _read(SECTIONS["corpus"], sections, runtime, config, set_)
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
        view, where = _read(SECTIONS["base"], sections, runtime, config, set_)
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
        view, where = _read(SECTIONS["sft"], sections, runtime, config, set_)
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
        view, where = _read(SECTIONS[name], sections, runtime, config, set_)
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
        view, where = _read(SECTIONS["filter"], sections, runtime, config, set_)
        from trainer.stages.hard_filter import filter_hard as run

        _say(run(view, where).facts)


@app.command()
def origin(
    name: Annotated[str, typer.Option(help="An origin of config/experiments/arms.yaml.")],
    sections: SectionsOption = None,
    runtime: RuntimeOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """An SFT checkpoint beside the run's own, for experiment arms."""
    with one_line_errors():
        from config.arms import ORIGIN_SECTIONS, config_of_origin

        view, where = _read(
            ORIGIN_SECTIONS, sections, runtime, config, set_, lambda whole: config_of_origin(whole, name)
        )
        from evaluation.experiments.sft_variant import make_origin

        _say(make_origin(name, view, where).facts)


@app.command()
def arm(
    name: Annotated[str, typer.Option(help="An arm of config/experiments/arms.yaml.")],
    origin: Annotated[str, typer.Option(help="Whose SFT checkpoint; main is the run's own.")] = "main",
    seed: Annotated[int, typer.Option(help="0 samples under the run's own seed.", min=0)] = 0,
    sections: SectionsOption = None,
    runtime: RuntimeOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Train and test one experiment arm; leaves arms/NAME-ORIGIN-SEED.json in the run."""
    with one_line_errors():
        from config.arms import ArmRun, config_of_arm, stage_sections

        run = ArmRun(name, origin, seed)
        declared = (*stage_sections(run), "eval")
        view, where = _read(
            declared, sections, runtime, config, set_, lambda whole: config_of_arm(whole, run)
        )
        from evaluation.experiments.arm import run_arm

        _say(run_arm(run, view, where)["endpoints"])


@app.command("arm-of-main")
def arm_of_main(runtime: RuntimeOption = None, config: ConfigOption = None, set_: SetOption = None) -> None:
    """Summarise the run's own stage 1 as the arm roc_paper with seed 0."""
    with one_line_errors():
        from config.arms import MAIN, ArmRun

        _, where = _read((), None, runtime, config, set_)
        from evaluation.experiments.arm import summarise_main

        _say(summarise_main(ArmRun("roc_paper", MAIN, 0), where)["endpoints"])


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
        view, where = _read(SECTIONS["score"], sections, runtime, config, set_)
        from records.finished_results import refuse_to_replace
        from trainer.metrics.token_table import score_samples

        refuse_to_replace(out / "manifest.json", overwrite=overwrite)
        _say(score_samples(checkpoint, samples, out, view.analysis, where))


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
        view, where = _read(SECTIONS["chat"], None, None, config, set_)
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
        view, _ = _read(SECTIONS["base"], None, None, config, set_)
        from trainer.inspect_data import show

        show(data, checkpoint, count, view.rollout)


@app.command()
def schedule(
    quick: Annotated[bool, typer.Option("--quick", help="At most half a minute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON there.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing OUT.")] = False,
) -> None:
    """Scheduler study in the simulator: every policy on the same workloads. All numbers are simulated."""
    with one_line_errors():
        import json

        from bench.schedule import study, to_markdown

        if out is not None:
            from records.finished_results import refuse_to_replace

            refuse_to_replace(out, overwrite=overwrite)
        record = study(quick=quick)
        if out is not None:
            from records.files import write_json

            write_json(out, record)
        if as_json:
            typer.echo(json.dumps(record))
        else:
            typer.echo(to_markdown(record))


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
    app()
