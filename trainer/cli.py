"""`python -m trainer COMMAND`: prepares problems, trains checkpoints, scores and exports them.

`config/commands.py` declares the sections that each command reads. Long commands resume after a kill.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from config.command import fail, one_line_errors
from config.commands import BASE, CHAT, CORPUS, FILTER, INSPECT, PREPARE, RL, SCORE, SFT, FilterView
from config.options import EndpointOption, Source, configured
from records.errors import require_known
from records.repository_module import run_bench_module
from records.stages import RL_STAGES

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Trains the policy; scores, shows and exports its checkpoints.",
)


@app.command()
@configured
def prepare(
    source: Source,
    recipe: Annotated[
        str | None, typer.Option(help="Recipe of config/recipes, or a YAML file; replaces data.source.")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Rows read of each source.", min=1)] = None,
    rewrite: Annotated[
        str | None, typer.Option(help="OpenAI-compatible server that rewrites what the recipe marks.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Sources, licences, counts, disk, what is out of reach; reads no row."
        ),
    ] = False,
) -> None:
    """Make the problems of every split, and the conversations of a recipe."""
    view, runtime = source.read(PREPARE)
    if recipe is not None:
        view = view.model_copy(update={"data": view.data.model_copy(update={"source": recipe})})
    if dry_run:
        from trainer.data.dry_run import lines_of

        typer.echo("\n".join(lines_of(view.data, runtime)))
        return
    from trainer.problems.prepare import prepare as run

    _print(run(view, runtime, limit=limit, rewrite=rewrite).facts)


@app.command()
@configured
def corpus(source: Source) -> None:
    """Write the SFT documents with the scripted teacher and the results of the sandbox."""
    view, runtime = source.read(CORPUS)
    if (runtime.folder.data / "conversations.parquet").is_file():
        from trainer.sft.conversations import publish_conversations as run
    else:
        from trainer.sft.corpus import build_corpus as run

    _print(run(view, runtime).facts)


@app.command()
@configured
def base(source: Source) -> None:
    """Make the base checkpoint: a random model with a new tokenizer, or a copy of a pretrained folder."""
    view, runtime = source.read(BASE)
    from trainer.stages.base_checkpoint import make_base

    _print(make_base(view, runtime).facts)


@app.command()
@configured
def sft(source: Source) -> None:
    """Non-reasoning SFT from the base checkpoint."""
    view, runtime = source.read(SFT)
    from trainer.sft.sft import run_sft

    _print(run_sft(view, runtime).facts)


@app.command()
@configured
def rl(source: Source, stage: Annotated[str, typer.Option(help=f"{', '.join(RL_STAGES)}.")]) -> None:
    """Run one RL stage with GRPO-RoC from the checkpoint of its parent."""
    require_known(stage, RL_STAGES, "--stage")
    view, runtime = source.read(RL[stage])
    is_hard = isinstance(view, FilterView) and view.filter is not None
    from trainer.problems.problem_files import load_split, pool_digest
    from trainer.stages.hard_filter import load_hard
    from trainer.stages.rl_job import run_stage

    pool = load_hard(runtime) if is_hard else load_split(runtime, "train")
    _print(run_stage(stage, view, runtime, pool, pool_digest(pool)).facts)


@app.command("filter-hard")
@configured
def filter_hard(source: Source) -> None:
    """Keep the problems that the policy before the last stage does not solve in every rollout."""
    view, runtime = source.read(FILTER)
    from trainer.stages.hard_filter import filter_hard as run

    _print(run(view, runtime).facts)


@app.command()
@configured
def score(
    source: Source,
    checkpoint: Annotated[Path, typer.Option(help="Checkpoint folder.")],
    samples: Annotated[Path, typer.Option(help="samples.parquet of an evaluation.")],
    out: Annotated[Path, typer.Option(help="Folder for tokens.parquet and its manifest.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a finished table in OUT.")] = False,
) -> None:
    """Write the token table: entropy, log-prob and rank by one teacher-forced pass over stored ids."""
    view, runtime = source.read(SCORE)
    from records.finished_results import refuse_to_replace
    from trainer.metrics.token_table import score_samples

    refuse_to_replace(out / "manifest.json", overwrite=overwrite)
    _print(score_samples(checkpoint, samples, out, view.analysis, runtime).facts)


@app.command()
@configured
def chat(
    source: Source,
    checkpoint: Annotated[Path, typer.Option(help="Checkpoint folder.")],
    question: Annotated[
        str | None, typer.Option(help="Ask once and exit; by default questions are read.")
    ] = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.", min=0.0)] = 0.0,
    endpoint: EndpointOption = None,
) -> None:
    """Chat with a checkpoint in the terminal; shows reasoning, tool calls, tool responses and the answer."""
    view, runtime = source.read(CHAT)
    from trainer.rollout.terminal_chat import talk

    talk(checkpoint, view.at_endpoint(endpoint), runtime, question=question, temperature=temperature)


@app.command()
@configured
def inspect(
    source: Source,
    data: Annotated[
        Path,
        typer.Argument(help="Conversations, SFT documents, problems or trajectories; .jsonl or .parquet."),
    ],
    checkpoint: Annotated[
        Path | None, typer.Option(help="Checkpoint whose tokenizer shows documents as tokens.")
    ] = None,
    count: Annotated[int, typer.Option(help="Rows to show.", min=1)] = 3,
    budget: Annotated[
        int | None, typer.Option(help="Tokens; the share of rows beyond it is reported.", min=1)
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write one HTML page as well.")] = None,
    solve_rate: Annotated[
        bool, typer.Option("--solve-rate", help="Let the checkpoint solve the problems; histogram and cost.")
    ] = False,
    rollouts: Annotated[int, typer.Option(help="Of each problem, with --solve-rate.", min=1)] = 8,
    limit: Annotated[int | None, typer.Option(help="Problems tried, with --solve-rate.", min=1)] = None,
    endpoint: EndpointOption = None,
    out: Annotated[Path | None, typer.Option(help="File of the solve rates; default: beside DATA.")] = None,
) -> None:
    """Show rows with the training mask and the lengths of all; with --solve-rate, solve the problems."""
    if solve_rate:
        view, runtime = source.read(FILTER)
        from trainer.inspect_data import read_any_problems
        from trainer.stages.solve_rates import Policy, measure

        if checkpoint is None:
            fail(
                "--solve-rate needs --checkpoint: the folder of the policy, or of the tokenizer of --endpoint"
            )
        rates = out or data.with_suffix(".rates.jsonl")
        policy = Policy(checkpoint=checkpoint, endpoint=endpoint)
        lines = measure(
            read_any_problems(data), policy, view, runtime, rollouts=rollouts, limit=limit, out=rates
        )
        typer.echo("\n".join(lines))
        return
    view, _ = source.read(INSPECT)
    from trainer.inspect_data import inspect as read
    from trainer.inspect_page import show, write_page

    inspection = read(data, checkpoint, count, view.rollout, budget)
    show(inspection)
    if html is not None:
        write_page(inspection, html)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
def schedule(context: typer.Context) -> None:
    """Run the scheduler study: every policy in the simulator on the same workloads."""
    raise typer.Exit(run_bench_module("bench.schedule", context.args))


@app.command()
def doctor(
    preset: Annotated[str, typer.Option(help="tiny, micro, smol, small, released or paper.")] = "tiny",
) -> None:
    """List the requirements of a preset beside this machine; exit status 1 when something is missing."""
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
    push: Annotated[
        str | None, typer.Option(help="Upload to this private repository of the hub; default: no upload.")
    ] = None,
) -> None:
    """Copy a checkpoint in another number format, with a model card from the numbers of its run."""
    with one_line_errors():
        from trainer.stages.export import export as run
        from trainer.stages.export import push as upload

        if dtype not in ("float32", "bfloat16", "float16"):
            fail(f"--dtype {dtype}: must be float32, bfloat16 or float16")
        run(checkpoint, out, dtype=dtype, untie=untie)
        if push is not None:
            typer.echo(upload(out, push))


@app.command("export-rows")
def export_rows(
    trajectories: Annotated[Path, typer.Argument(help="Trajectories (.parquet) of training or evaluation.")],
    checkpoint: Annotated[Path, typer.Option(help="Whose tokenizer made the ids.")],
    out: Annotated[Path, typer.Option(help="New JSONL file.")],
    form: Annotated[str, typer.Option(help="messages, sharegpt or verl.")] = "messages",
    problems: Annotated[Path | None, typer.Option(help="Problems (.jsonl) with the golds, for verl.")] = None,
) -> None:
    """Write trajectories as rows for other trainers."""
    with one_line_errors():
        from dataclasses import asdict

        from trainer.stages.conversation_rows import FORMS, write_rows

        require_known(form, FORMS, "--form")
        _print(asdict(write_rows(trajectories, out, form=form, checkpoint=checkpoint, problems=problems)))


def _print(facts: dict[str, Any]) -> None:
    import json

    typer.echo(json.dumps(facts, sort_keys=True))
