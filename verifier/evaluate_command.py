"""The `evaluate` command: a checkpoint's plans from the configuration, or benchmarks named on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from config.command import one_line_errors, read_sections
from config.options import ConfigOption, RuntimeOption, SectionsOption, SetOption

if TYPE_CHECKING:
    from config.model import EvalPlan

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
        str | None,
        typer.Option(
            help="OpenAI-compatible server, such as http://127.0.0.1:8000/v1; the checkpoint gives the tokenizer."
        ),
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="paper: the published settings for the benchmarks named.")
    ] = None,
    variant: Annotated[
        str | None, typer.Option(help="One setting changed, such as turns_5; see --dry-run.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print settings and cost; sample nothing.")
    ] = False,
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
        from verifier.variants import dry_run as lines_of
        from verifier.variants import refuse_without_engine

        called = name or checkpoint.resolve().name
        plans = _plans(called, benchmark or [], k, temperature, limit, control, profile, view)
        _adjust(view, benchmark or [], profile, variant)
        if dry_run:
            typer.echo("\n".join(lines_of(plans, view)))
            return
        if endpoint is None:
            refuse_without_engine(where.preset)
        if data is not None:
            where = where.model_copy(update={"paths": where.paths.model_copy(update={"data": str(data)})})
        from verifier.evaluate import Place
        from verifier.evaluate import evaluate as run

        summary = run(
            place=Place(checkpoint=checkpoint, name=called, endpoint=endpoint, variant=variant),
            plans=plans,
            view=view,
            runtime=where,
            rings=rings or _rings_beside(checkpoint),
            out=out,
            work=work or out / "work",
        )
        _show(summary, as_json)


def _plans(
    called: str,
    benchmarks: list[str],
    k: int,
    temperature: float,
    limit: int | None,
    control: str,
    profile: str | None,
    view: Any,
) -> list[EvalPlan]:
    """What was named on the command line, else the configuration's plans for this checkpoint."""
    from config.errors import ConfigError
    from config.model import Control, EvalPlan
    from verifier.profile import paper_plans

    if control not in list(Control):
        raise ConfigError(f"--control {control}: must be one of {', '.join(Control)}")
    if profile not in (None, "paper"):
        raise ConfigError(f"--profile {profile}: the only profile is paper")
    if profile and not benchmarks:
        raise ConfigError("--profile paper: name each --benchmark")
    if not benchmarks:
        plans = [plan for plan in view.eval.plans.values() if plan.checkpoint == called]
        if not plans:
            raise ConfigError(f"eval.plans has no plan for checkpoint {called!r}; name a --benchmark")
        return plans
    if profile:
        try:
            return paper_plans(called, benchmarks, limit)
        except ValueError as error:
            raise ConfigError(f"--benchmark: {error}") from None
    return [
        EvalPlan.model_construct(
            checkpoint=called,
            benchmarks=benchmarks,
            k=k,
            temperature=temperature,
            limit=limit,
            control=Control(control),
        )
    ]


def _adjust(view: Any, benchmarks: list[str], profile: str | None, variant: str | None) -> None:
    """Put the profile's limits and the variant's setting into the sections eval and rollout."""
    from verifier.profile import paper_limits
    from verifier.variants import variant as named

    if profile:
        view.eval = view.eval.model_copy(update=paper_limits(benchmarks))
    if variant:
        named(variant).apply(view)


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
    for row in summary["unavailable"]:
        typer.echo(f"{row['benchmark']}: {row['how'].removeprefix(row['benchmark'] + ': ')}")
    for row in summary["paper_differences"]:
        typer.echo(
            f"not the paper's: {row['benchmark']} {row['setting']} {row['here']} instead of {row['paper']}"
        )
    for row in summary["behaviour"]:
        shares = {name: row[name] for name in row if name.endswith("_frac") and name.startswith(_ENDS)}
        told = ", ".join(f"{name.removesuffix('_frac')} {100 * share:.1f}%" for name, share in shares.items())
        typer.echo(f"{row['benchmark']}, control {row['control']}: {told}")


_ENDS = ("truncated", "unparsed", "timeout", "infra_failed", "prompt_does_not_fit")
"""What stands beside every score."""
