"""The `evaluate` command: a checkpoint's plans from the configuration, or benchmarks named on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from config.command import one_line_errors, read_sections
from config.options import ConfigOption, RuntimeOption, SectionsOption, SetOption

SECTIONS = ("rollout", "sandbox", "eval", "analysis")


def evaluate(
    checkpoint: Annotated[Path, typer.Option(help="Hugging Face folder.")],
    out: Annotated[Path, typer.Option(help="Folder for samples.parquet and summary.json.")],
    benchmark: Annotated[
        list[str] | None,
        typer.Option(help="Benchmark; may be repeated. Without it: the plans of the configuration."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What to call the checkpoint; default: its folder.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with benchmark files.")] = None,
    rings: Annotated[Path | None, typer.Option(help="Folder of the procedural test rings.")] = None,
    k: Annotated[int, typer.Option("-k", "--k", help="Samples per question.", min=1)] = 4,
    temperature: Annotated[float, typer.Option(min=0.0)] = 1.0,
    limit: Annotated[int | None, typer.Option(help="Questions per benchmark, drawn by seed.", min=1)] = None,
    work: Annotated[Path | None, typer.Option(help="Folder for resuming; default: OUT/work.")] = None,
    control: Annotated[str, typer.Option(help="none or tool_off.")] = "none",
    endpoint: Annotated[
        str | None, typer.Option(help="OpenAI-compatible server instead of local decoding.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
    sections: SectionsOption = None,
    runtime: RuntimeOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
) -> None:
    """Sample and grade a checkpoint: a samples file and a summary with intervals. Resumes where it was killed."""
    with one_line_errors():
        view, where = read_sections(
            SECTIONS, sections=sections, runtime=runtime, config=config or [], overrides=set_ or []
        )
        from config.errors import ConfigError
        from config.model import Control, EvalPlan
        from verifier.evaluate import evaluate as run

        if endpoint is not None:
            raise ConfigError("--endpoint: remote servers are not supported yet; give a checkpoint folder")
        if control not in list(Control):
            raise ConfigError(f"--control {control}: must be one of {', '.join(Control)}")
        called = name or checkpoint.resolve().name
        if benchmark:
            plan = EvalPlan.model_construct(
                checkpoint=called,
                benchmarks=list(benchmark),
                k=k,
                temperature=temperature,
                limit=limit,
                control=Control(control),
            )
            plans = [plan]
        else:
            plans = [plan for plan in view.eval.plans.values() if plan.checkpoint == called]
            if not plans:
                raise ConfigError(f"eval.plans has no plan for checkpoint {called!r}; name a --benchmark")
        if data is not None:
            where = where.model_copy(update={"paths": where.paths.model_copy(update={"data": str(data)})})
        summary = run(
            checkpoint=checkpoint,
            name=called,
            plans=plans,
            view=view,
            runtime=where,
            rings=rings or _rings_beside(checkpoint),
            out=out,
            work=work or out / "work",
        )
        _show(summary, as_json)


def _rings_beside(checkpoint: Path) -> Path | None:
    """results/<run>/data of a checkpoint in results/<run>/checkpoints/."""
    folder = checkpoint.resolve().parent.parent / "data"
    return folder if folder.is_dir() else None


def _show(summary: dict, as_json: bool) -> None:
    import json

    if as_json:
        typer.echo(json.dumps(summary["scores"]))
        return
    for row in summary["scores"]:
        if row["metric"] == "chance" or row["control"] != "none":
            words = row["metric"] if row["control"] == "none" else f"{row['metric']} {row['control']}"
        else:
            words = f"{row['metric']} {row['grader']}"
        typer.echo(
            f"{row['checkpoint']:>5} {row['benchmark']:<24} {words:<24} {row['value']:.3f} "
            f"[{row['low']:.3f}, {row['high']:.3f}]  {row['num_questions']} questions, T {row['temperature']}"
        )
