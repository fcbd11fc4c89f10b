"""`evaluate`: the command that samples the configured plans of a checkpoint, or benchmarks of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from config.commands import CHAT, EVALUATE, SamplingView
from config.model import Control, EvalPlan
from config.options import EndpointOption, Source, configured
from records.errors import ConfigError

if TYPE_CHECKING:
    from records.evaluation import EvaluationSummary

ProfileOption = Annotated[
    str | None,
    typer.Option(
        help="paper: the published settings for the benchmarks named; options and --set override it."
    ),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print settings and cost; sample nothing.")]
OverwriteOption = Annotated[bool, typer.Option("--overwrite", help="Replace a finished evaluation in OUT.")]


@configured
def evaluate(
    source: Source,
    checkpoint: Annotated[Path, typer.Option(help="Hugging Face folder.")],
    out: Annotated[Path, typer.Option(help="Folder for samples.parquet and summary.json.")],
    benchmark: Annotated[
        list[str] | None,
        typer.Option(help="Benchmark; may be repeated. Without it: the plans of the configuration."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the checkpoint in all rows; default: its folder.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Folder with benchmark files.")] = None,
    rings: Annotated[Path | None, typer.Option(help="Folder of the procedural test rings.")] = None,
    k: Annotated[
        int | None,
        typer.Option(
            "-k", "--k", help="Samples per question; default: the plan's, the profile's, or 4.", min=1
        ),
    ] = None,
    temperature: Annotated[
        float | None, typer.Option(help="Default: the plan's, the profile's, or 1.", min=0.0)
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Questions per benchmark, drawn by seed.", min=1)] = None,
    work: Annotated[Path | None, typer.Option(help="Folder for resuming; default: OUT/work.")] = None,
    control: Annotated[str | None, typer.Option(help="none or tool_off.")] = None,
    endpoint: EndpointOption = None,
    profile: ProfileOption = None,
    variant: Annotated[
        str | None, typer.Option(help="Change one setting, such as turns_5; see --dry-run.")
    ] = None,
    dry_run: DryRunOption = False,
    overwrite: OverwriteOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Sample and grade a checkpoint: a samples file and a summary with intervals. A killed run resumes."""
    read, runtime = source.read(EVALUATE)
    from evaluation.harness_variants import dry_run as lines_of

    called = name or checkpoint.resolve().name
    given = Given(k=k, temperature=temperature, limit=limit, control=control)
    plans = _plans(called, benchmark or [], given, profile, read.eval.plans.values())
    view, kept = _adjusted(
        CHAT.of(read).at_endpoint(endpoint), benchmark or [], profile, variant, source.overrides or []
    )
    if profile or (given.named and not benchmark):
        typer.echo(precedence(profile, given, kept), err=True)
    if dry_run:
        typer.echo("\n".join(lines_of(plans, view)))
        return
    _require_folders(data, rings)
    if data is not None:
        paths = runtime.paths.model_copy(update={"data": str(data)})
        runtime = runtime.model_copy(update={"paths": paths})
    from evaluation.evaluate import Intervals, Place
    from evaluation.evaluate import evaluate as run

    summary = run(
        place=Place(checkpoint=checkpoint, name=called, variant=variant),
        plans=plans,
        view=view,
        intervals=Intervals(confidence=read.analysis.confidence, seed=read.analysis.seed),
        runtime=runtime,
        rings=rings or _rings_beside(checkpoint),
        out=out,
        work=work or out / "work",
        must_have_all=bool(benchmark),
        overwrite=overwrite,
    )
    _show(summary, as_json)


def _require_folders(data: Path | None, rings: Path | None) -> None:
    """Refuse a path that is no folder, so that a typing error does not look like a folder without benchmarks."""
    for option, folder in (("--data", data), ("--rings", rings)):
        if folder is not None and not folder.is_dir():
            raise ConfigError(f"{option} {folder} is not a folder; name the one that holds the problem files")


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """Options of the command line that change a plan; None where the user gave none."""

    k: int | None = None
    temperature: float | None = None
    limit: int | None = None
    control: str | None = None

    @property
    def named(self) -> dict[str, Any]:
        """Return the options that the user gave."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def over(self, plans: Sequence[EvalPlan]) -> list[EvalPlan]:
        """Return the plans with these options in place of their own."""
        changes = self.named | ({} if self.control is None else {"control": Control(self.control)})
        if "k" in changes or "limit" in changes:
            # Additional samples for pass@k belong to the unchanged plan.
            changes |= {"deep_k": None, "deep_limit": None}
        return [plan.model_copy(update=changes) for plan in plans]


def precedence(profile: str | None, given: Given, kept: Sequence[str]) -> str:
    """Describe in one line what decided the settings.

    >>> precedence("paper", Given(k=2), ["eval.max_response"])
    'settings: profile paper; over it k = 2 and --set eval.max_response'
    >>> precedence(None, Given(temperature=0.6), [])
    'settings: the plans of the configuration; over them temperature = 0.6'
    """
    base, pronoun = (f"profile {profile}", "it") if profile else ("the plans of the configuration", "them")
    winners = [f"{name} = {value}" for name, value in given.named.items()] + [f"--set {key}" for key in kept]
    return f"settings: {base}" + (f"; over {pronoun} {' and '.join(winners)}" if winners else "")


def _plans(
    called: str, benchmarks: list[str], given: Given, profile: str | None, configured: Iterable[EvalPlan]
) -> list[EvalPlan]:
    """Return the plans of the command line, else the configured plans of this checkpoint; options override both."""
    from evaluation.published_settings import paper_plans

    if given.control not in (None, *Control):
        raise ConfigError(f"--control {given.control}: must be one of {', '.join(Control)}")
    if profile not in (None, "paper"):
        raise ConfigError(f"--profile {profile}: the only profile is paper")
    if profile and not benchmarks:
        raise ConfigError("--profile paper: name each --benchmark")
    if not benchmarks:
        plans = [plan for plan in configured if plan.checkpoint == called]
        if not plans:
            raise ConfigError(f"eval.plans has no plan for checkpoint {called!r}; name a --benchmark")
    elif profile:
        try:
            plans = paper_plans(called, benchmarks)
        except ValueError as error:
            raise ConfigError(f"--benchmark: {error}") from None
    else:
        plans = [
            EvalPlan.model_construct(
                checkpoint=called,
                benchmarks=benchmarks,
                k=4,
                temperature=1.0,
                limit=None,
                control=Control.NONE,
            )
        ]
    return given.over(plans)


def _adjusted(
    view: SamplingView,
    benchmarks: list[str],
    profile: str | None,
    variant: str | None,
    overrides: Sequence[str],
) -> tuple[SamplingView, list[str]]:
    """Return the view with the profile's limits and the variant's setting.

    Returns:
        The view, and the keys of the profile that `--set` overrides.
    """
    from evaluation.harness_variants import variant as named
    from evaluation.published_settings import paper_limits

    kept = []
    if profile:
        given = {override.partition("=")[0].strip() for override in overrides}
        limits = paper_limits(benchmarks)
        kept = [f"eval.{name}" for name in limits if f"eval.{name}" in given]
        changes = {name: value for name, value in limits.items() if f"eval.{name}" not in kept}
        view = view.model_copy(update={"eval": view.eval.model_copy(update=changes)})
    return (named(variant).applied(view) if variant else view), kept


def _rings_beside(checkpoint: Path) -> Path | None:
    """Return results/<run>/data for a checkpoint in results/<run>/checkpoints/."""
    folder = checkpoint.resolve().parent.parent / "data"
    return folder if folder.is_dir() else None


def _show(summary: EvaluationSummary, as_json: bool) -> None:
    import json

    if as_json:
        typer.echo(json.dumps([asdict(row) for row in summary.scores]))
        return
    for row in summary.scores:
        if row.metric == "chance" or row.control != "none":
            words = row.metric if row.control == "none" else f"{row.metric} {row.control}"
        else:
            words = f"{row.metric} {row.grader}"
        typer.echo(
            f"{row.checkpoint:>5} {row.benchmark:<24} {words:<24} {row.value:.3f} "
            f"[{row.low:.3f}, {row.high:.3f}]  {row.num_questions} questions, T {row.temperature}"
        )
    for row in summary.unavailable:
        typer.echo(f"{row.benchmark}: {row.how.removeprefix(row.benchmark + ': ')}")
    for row in summary.paper_differences:
        typer.echo(f"not the paper's: {row.benchmark} {row.setting} {row.here} instead of {row.paper}")
    for row in summary.behaviour:
        shares = {
            name: value
            for name, value in row.numbers.items()
            if name.endswith("_frac") and name.startswith(_ENDS)
        }
        ends = ", ".join(f"{name.removesuffix('_frac')} {100 * share:.1f}%" for name, share in shares.items())
        num_lost = row.numbers.get("num_lost", 0)
        num_questions = row.numbers.get("num_questions_lost", 0)
        lost = f"; {num_lost:g} lost, {num_questions:g} questions with them" if num_lost else ""
        typer.echo(f"{row.benchmark}, control {row.control}: {ends}{lost}")


_ENDS = ("truncated", "unparsed", "timeout", "infra_failed", "prompt_does_not_fit")
"""Shares printed with every score."""
