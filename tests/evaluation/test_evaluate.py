"""Evaluation of a tiny random checkpoint, through the function and through the command."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from analysis.inputs.evaluation import check_published, read_evaluation
from config.commands import CHAT
from config.model import Config, Control, EvalPlan
from evaluation.cli import app
from evaluation.command import Given, _adjusted, _plans
from evaluation.evaluate import Intervals, Place, evaluate, refuse_ungraded
from evaluation.scores.behaviour import behaviour
from records.errors import ConfigError, FellShort
from records.evaluation import RINGS
from records.trajectory import GradedRollout, Rollout, StopReason
from records.trajectory_files import read_parquet
from records.verdict import Verdict, VerdictKind
from tests.evaluation.rings import make_run
from tests.trainer.server import Server
from tests.trainer.tiny_checkpoint import tiny_config

INTERVALS = Intervals(confidence=0.95, seed=16)


pytestmark = pytest.mark.usefixtures("torch_settings")


@pytest.fixture(scope="module")
def run_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with one random checkpoint and rings of three problems."""
    return make_run(tmp_path_factory.mktemp("run"), 3)


def plan(
    *benchmarks: str, k: int = 2, control: Control = Control.TOOL_OFF, limit: int | None = None
) -> EvalPlan:
    """Without the tool by default, so no sandbox has to start."""
    return EvalPlan(
        checkpoint="sft", benchmarks=list(benchmarks), k=k, temperature=1.0, limit=limit, control=control
    )


def run(run_root: Path, out: Path, *plans: EvalPlan, work: Path | None = None) -> dict[str, Any]:
    config: Config = tiny_config("eval.max_response=40")
    summary = evaluate(
        place=Place(checkpoint=run_root / "checkpoints" / "sft", name="sft"), plans=plans,
        view=CHAT.of(config), intervals=INTERVALS,
        runtime=config.runtime, rings=run_root / "data", out=out, work=work or out / "work",
    )  # fmt: skip
    return asdict(summary)


def test_an_evaluation_writes_samples_scores_and_unavailable_benchmarks(
    run_root: Path, tmp_path: Path
) -> None:
    summary = run(run_root, tmp_path, plan("procedural", "aime24"))
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    check_published(read_evaluation(tmp_path))  # the check of the analysis
    assert set(summary["benchmarks"]) == set(RINGS)
    assert {"checkpoint_digest", "settings", "policies", "scores", "behaviour", "samples_sha256"} <= set(
        summary
    )
    rows = {(row["benchmark"], row["metric"], row["grader"]) for row in summary["scores"]}
    for name in (*RINGS, "procedural"):
        assert {
            (name, metric, grader) for metric in ("avg@2", "pass@2") for grader in ("strict", "rstar_compat")
        } <= rows
    pooled = next(
        row for row in summary["scores"] if row["benchmark"] == "procedural" and row["metric"] == "avg@2"
    )
    assert (pooled["num_questions"], pooled["num_samples"], pooled["control"]) == (12, 24, "tool_off")
    (missing,) = summary["unavailable"]
    assert missing["benchmark"] == "aime24"
    assert missing["how"]
    samples = read_parquet(tmp_path / "samples.parquet")
    assert len(samples) == 24
    behaviour = next(row["numbers"] for row in summary["behaviour"] if row["benchmark"] == "procedural")
    failed = ("wrong_frac", "unparsed_frac", "no_answer_frac", "timeout_frac", "infra_failed_frac")
    assert sum(behaviour[name] for name in failed) + pooled["value"] == pytest.approx(1.0)
    assert (behaviour["infra_failed_frac"], behaviour["prompt_does_not_fit_frac"]) == (0.0, 0.0)
    assert all(set(t.verdicts) == {"strict", "rstar_compat"} and t.kept is None for t in samples)
    assert {t.stop for t in samples} <= set(StopReason) - {StopReason.ABORTED}
    assert not [p for p in (tmp_path / "work").iterdir() if p.is_dir()]


def test_a_score_has_its_shortcut_controls(run_root: Path, tmp_path: Path) -> None:
    summary = run(run_root, tmp_path, plan("procedural-numbers", k=1, control=Control.NONE))
    rows = {(row["control"], row["metric"]): row for row in summary["scores"] if row["grader"] == "strict"}
    assert set(rows) == {
        ("none", "avg@1"),
        ("shuffled_golds", "avg@1"),
        ("mute", "avg@1"),
        ("none", "chance"),
    }
    assert rows["mute", "avg@1"]["value"] == 0.0
    assert rows["none", "chance"]["value"] == pytest.approx(1 / 3)


def test_some_questions_of_each_ring_get_more_samples(run_root: Path, tmp_path: Path) -> None:
    """The first k samples are those of the plan; the average over all questions does not use the others."""
    deep = plan("procedural", k=1).model_copy(update={"deep_k": 4, "deep_limit": 2})
    summary = run(run_root, tmp_path / "deep", deep)
    rows = {
        row["metric"]: row
        for row in summary["scores"]
        if row["benchmark"] == "procedural" and row["grader"] == "strict" and row["control"] == "tool_off"
    }
    assert {"avg@1", "avg@4", "pass@4"} <= set(rows)
    assert [(rows[m]["num_questions"], rows[m]["num_samples"]) for m in ("avg@1", "avg@4")] == [
        (12, 12),
        (8, 32),
    ]
    samples = read_parquet(tmp_path / "deep" / "samples.parquet")
    assert len(samples) == 12 + 8 * 3 == len({t.key for t in samples})
    run(run_root, tmp_path / "flat", plan("procedural", k=1))
    flat = {t.key: t.ids for t in read_parquet(tmp_path / "flat" / "samples.parquet")}
    assert {t.key: t.ids for t in samples if t.sample == 0} == flat


def test_a_killed_evaluation_ends_with_the_same_samples(run_root: Path, tmp_path: Path) -> None:
    """Shards of a finished ring are read back, the others sampled again; a failed write loses none of them."""
    expected = run(run_root, tmp_path / "straight", plan("procedural"))
    blocked, work = tmp_path / "blocked", tmp_path / "work"
    blocked.write_text("a file where the folder should be")
    with pytest.raises(OSError):  # noqa: PT011
        run(run_root, blocked, plan("procedural"), work=work)
    shards = sorted(work.glob("*/*.jsonl"))
    assert len(shards) == len(RINGS)
    shards[1].unlink()
    shutil.rmtree(shards[2].parent)
    again = run(run_root, tmp_path / "resumed", plan("procedural"), work=work)
    assert again == expected
    straight, resumed = (tmp_path / name / "samples.parquet" for name in ("straight", "resumed"))
    assert straight.read_bytes() == resumed.read_bytes()


def test_another_plan_does_not_take_the_shards_of_the_first(run_root: Path, tmp_path: Path) -> None:
    blocked, work = tmp_path / "blocked", tmp_path / "work"
    blocked.write_text("")
    with pytest.raises(OSError):  # noqa: PT011
        run(run_root, blocked, plan("procedural-numbers", k=1), work=work)
    run(run_root, tmp_path / "out", plan("procedural-numbers", k=3), work=work)
    assert len(read_parquet(tmp_path / "out" / "samples.parquet")) == 9


@pytest.mark.parametrize(
    "plans",
    [
        [plan("procedural", "procedural-numbers")],
        [plan("procedural-numbers"), plan("procedural-numbers", limit=1)],
    ],
    ids=["within a plan", "in two plans"],
)
def test_a_duplicated_sampling_is_refused_before_it_starts(
    plans: list[EvalPlan], run_root: Path, tmp_path: Path
) -> None:
    with pytest.raises(ConfigError, match=r"procedural-numbers .* is asked twice"):
        run(run_root, tmp_path, *plans)
    assert not (tmp_path / "work").exists()


def test_a_limit_draws_the_same_questions_each_time(run_root: Path, tmp_path: Path) -> None:
    asked = []
    for name in ("one", "other"):
        run(run_root, tmp_path / name, plan("procedural-numbers", k=1, limit=2))
        asked.append({t.problem for t in read_parquet(tmp_path / name / "samples.parquet")})
    assert asked[0] == asked[1]
    assert len(asked[0]) == 2


# --- the command ---------------------------------------------------------------------------------------------------


def command(run_root: Path, out: Path, *arguments: str) -> Any:
    folder = run_root / "checkpoints" / "sft"
    settings = ("eval.max_response=40",)
    options = [part for setting in settings for part in ("--set", setting)]
    fixed = ["--checkpoint", str(folder), "--out", str(out), "-k", "1", "--control", "tool_off"]
    return CliRunner().invoke(app, ["run", *fixed, *options, *arguments])


def test_the_command_prints_its_scores_as_json(run_root: Path, tmp_path: Path) -> None:
    done = command(run_root, tmp_path / "out", "--benchmark", "procedural-numbers", "--json")
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout.splitlines()[-1])
    assert {row["checkpoint"] for row in rows} == {"sft"}
    assert {row["metric"] for row in rows} == {"avg@1"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--benchmark", "aime99"], "aime99"),
        (["--benchmark", "procedural-numbers", "--checkpoint", "absent"], "absent: holds no checkpoint"),
        (
            ["--benchmark", "procedural-numbers", "--control", "half"],
            "--control half: must be one of none, tool_off",
        ),
        (["--benchmark", "procedural-numbers", "--set", "eval.sed=1"], "nearest known key: eval.seed"),
        (["--name", "rl9"], "eval.plans has no plan for checkpoint 'rl9'"),
        (["--benchmark", "procedural-numbers", "--benchmark", "procedural-numbers"], "is asked twice"),
        (["--benchmark", "procedural-numbers", "--endpoint", "http://127.0.0.1:9/v1"], "cannot be reached"),
        (["--benchmark", "procedural-numbers", "--data", "absent"], "--data absent is not a folder"),
        (["--benchmark", "procedural-numbers", "--rings", "absent"], "--rings absent is not a folder"),
        (["--benchmark", "aime24", "--variant", "turns_2"], "must be one of turns_1, turns_5"),
        (["--benchmark", "aime24", "--profile", "mine"], "the only profile is paper"),
    ],
)
def test_wrong_input_is_one_line_and_status_2(
    arguments: list[str], message: str, run_root: Path, tmp_path: Path
) -> None:
    done = command(run_root, tmp_path / "out", *arguments)
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("preset", ["tiny", "small"])
@pytest.mark.parametrize("others", [[], ["--benchmark", "procedural-numbers"]])
def test_a_named_benchmark_without_data_is_status_1(
    others: list[str], preset: str, run_root: Path, tmp_path: Path
) -> None:
    arguments = [
        "--benchmark",
        "aime24",
        *others,
        "--data",
        str(tmp_path),
        "--set",
        f"runtime.preset={preset}",
    ]
    done = command(run_root, tmp_path / "out", *arguments)
    assert done.exit_code == 1, done.output
    assert "aime24: not evaluated: put aime24.jsonl" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_plans_without_any_data_leave_no_result(run_root: Path, tmp_path: Path) -> None:
    with pytest.raises(FellShort, match="nothing to evaluate; aime24: not evaluated"):
        run(run_root, tmp_path / "out", plan("aime24"))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments", [["--benchmark", "procedural-family"], ["-k", "2"], ["--set", "eval.seed=9"]]
)
def test_a_finished_result_is_not_replaced_by_another(
    arguments: list[str], run_root: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    named = [] if "--benchmark" in arguments else ["--benchmark", "procedural-numbers"]
    assert command(run_root, out, "--benchmark", "procedural-numbers").exit_code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    done = command(run_root, out, *named, *arguments)
    assert done.exit_code == 2, done.output
    assert "holds a finished evaluation (procedural-numbers: k 1, T 1)" in done.stderr
    assert "--overwrite" in done.stderr
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before
    replaced = command(run_root, out, *named, *arguments, "--overwrite")
    assert replaced.exit_code == 0, replaced.output
    assert (out / "summary.json").read_bytes() != before["summary.json"]


def test_a_failed_overwrite_and_mistyped_data_keep_the_finished_result(
    run_root: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    assert command(run_root, out, "--benchmark", "procedural-numbers").exit_code == 0
    before = {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()}
    for arguments in (["--benchmark", "aime24"], ["--benchmark", "procedural-numbers", "--data", "no/where"]):
        assert command(run_root, out, *arguments, "--overwrite").exit_code in (1, 2)
    assert {path.name: path.read_bytes() for path in out.iterdir() if path.is_file()} == before


def test_a_finished_result_is_shown_again_without_sampling(run_root: Path, tmp_path: Path) -> None:
    first = run(run_root, tmp_path, plan("procedural-numbers", k=1))
    written = (tmp_path / "run.json").read_bytes()
    assert run(run_root, tmp_path, plan("procedural-numbers", k=1)) == first
    assert (tmp_path / "run.json").read_bytes() == written
    (tmp_path / "samples.parquet").write_bytes(b"")
    with pytest.raises(
        ConfigError, match=r"samples.parquet: is not the file that summary.json was made from"
    ):
        run(run_root, tmp_path, plan("procedural-numbers", k=1))
    (tmp_path / "summary.json").write_text("{")
    with pytest.raises(ConfigError, match=r"no summary that can be read; .*--overwrite"):
        run(run_root, tmp_path, plan("procedural-numbers", k=1))


def test_a_benchmark_with_only_lost_samples_ends_the_evaluation(tmp_path: Path) -> None:
    lost = [a_lost_sample("procedural-numbers", i) for i in range(3)]
    shards = tmp_path / "00-procedural-numbers"
    shards.mkdir()
    with pytest.raises(
        FellShort, match=r"procedural-numbers: none of its 3 samples could be graded \(aborted\)"
    ):
        refuse_ungraded("procedural-numbers", lost, shards)
    assert not shards.exists()
    refuse_ungraded("procedural-numbers", [*lost, replace(lost[0], reward=0.0)], tmp_path)
    assert tmp_path.exists()


def test_lost_samples_are_counted_and_in_no_share() -> None:
    lost, graded = a_lost_sample("b", 0), a_lost_sample("b", 1)
    verdicts = {"strict": Verdict(id="p1", verdict=VerdictKind.NO_ANSWER)}
    graded = replace(graded, reward=0.0, stop=StopReason.ANSWER, verdicts=verdicts)
    found = behaviour([lost, graded], lambda part: {"num_graded": len(part)})
    assert (found["no_answer_frac"], found["infra_failed_frac"]) == (1.0, 0.5)
    assert found["num_graded"] == 1
    assert (found["num_lost"], found["num_questions_lost"], found["num_rollouts"]) == (1, 1, 2)


def a_lost_sample(benchmark: str, number: int) -> GradedRollout:
    sample = Rollout(run="r", checkpoint="c", benchmark=benchmark, problem=f"p{number}", sample=0)
    verdict = Verdict(id=f"p{number}", verdict=VerdictKind.INFRA_FAILED, rule="aborted")
    return sample.graded(reward=None, verdicts={"strict": verdict})


def test_the_profile_and_the_variants_are_shown_without_sampling(run_root: Path, tmp_path: Path) -> None:
    """30 + 30 questions 16 times and 541 once; the profile's settings, not the configuration's."""
    names = [part for name in ("aime24", "aime25", "ifeval") for part in ("--benchmark", name)]
    fixed = ["--checkpoint", str(run_root / "checkpoints" / "sft"), "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, ["run", *fixed, *names, "--profile", "paper", "--dry-run"])
    assert done.exit_code == 0, done.output
    assert "turns 30, response 30720 tokens" in done.stdout
    assert "aime24, aime25: k 16, T 0.6" in done.stdout
    assert "ifeval: k 1, T 0," in done.stdout
    assert "1,501 trajectories" in done.stdout
    assert "variant tool_text_1000" in done.stdout
    assert not (tmp_path / "out").exists()


def test_a_variant_changes_its_setting_and_records_it(run_root: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = command(run_root, out, "--benchmark", "procedural-numbers", "--variant", "turns_1")
    assert done.exit_code == 0, done.output
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["variant"], summary["settings"]["eval"]["max_turns"]) == ("turns_1", 1)


@pytest.mark.parametrize(
    "row", ["{", '{"id": "a", "prompt": "q"}', '{"id": "a", "prompt": "q", "answer": ""}']
)
def test_wrong_data_is_refused_with_status_2(row: str, run_root: Path, tmp_path: Path) -> None:
    rings = tmp_path / "rings"
    rings.mkdir()
    (rings / "test-numbers.jsonl").write_text(row + "\n")
    done = command(run_root, tmp_path / "out", "--benchmark", "procedural-numbers", "--rings", str(rings))
    assert done.exit_code == 2, done.output
    assert "test-numbers.jsonl" in done.stderr


def test_a_checkpoint_whose_weights_changed_is_refused_with_status_2(run_root: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run_root / "checkpoints" / "sft", copy)
    with (copy / "model.safetensors").open("ab") as file:
        file.write(b"\0")
    done = command(run_root, tmp_path / "out", "--benchmark", "procedural-numbers", "--checkpoint", str(copy))
    assert done.exit_code == 2
    assert "model.safetensors: sha256" in done.stderr


# --- what wins -----------------------------------------------------------------------------------------------------


def test_an_option_wins_over_the_profile_and_over_a_plan() -> None:
    configured = list(tiny_config().eval.plans.values())
    given = Given(k=2, limit=3, control="tool_off")
    for plan in (
        *_plans("m", ["aime24", "ifeval"], given, "paper", configured),
        *_plans("rl3", [], given, None, configured),
    ):
        assert (plan.k, plan.limit, plan.control) == (2, 3, Control.TOOL_OFF)
    (plan,) = _plans("m", ["aime24"], Given(temperature=0.0), "paper", configured)
    assert (plan.k, plan.temperature) == (16, 0.0)
    (plan,) = _plans("m", ["aime24"], Given(), None, configured)
    assert (plan.k, plan.temperature, plan.limit, plan.control) == (4, 1.0, None, Control.NONE)


def test_set_wins_over_the_limits_of_the_profile() -> None:
    read = CHAT.of(tiny_config("eval.max_response=40"))
    view, kept = _adjusted(read, ["aime24"], "paper", None, ["eval.max_response=40"])
    assert kept == ["eval.max_response"]
    assert (view.eval.max_response, view.eval.max_turns) == (40, 30)


def test_the_command_reports_which_setting_applies(run_root: Path, tmp_path: Path) -> None:
    done = command(
        run_root, tmp_path / "out", "--benchmark", "aime24", "--profile", "paper", "-k", "2", "--dry-run"
    )
    assert done.exit_code == 0, done.output
    assert (
        "settings: profile paper; over it k = 2 and control = tool_off and --set eval.max_response"
        in done.stderr
    )
    assert "aime24: k 2, T 0.6" in done.stdout
    assert "response 40 tokens" in done.stdout


@pytest.mark.parametrize("finish", ["abort", "content_filter", None])
def test_a_server_that_aborts_every_request_gives_no_score(
    finish: str | None, run_root: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    asked = ["--benchmark", "procedural-numbers", "--endpoint"]
    server = Server(lambda body, number: {"choices": [{"text": "<answer>3", "finish_reason": finish}]})
    try:
        done = command(run_root, out, *asked, server.base)
    finally:
        server.close()
    assert done.exit_code == 1, done.output
    assert "procedural-numbers: none of its 3 samples could be graded" in done.stderr
    assert not (out / "summary.json").exists()
    assert not (out / "samples.parquet").exists()
