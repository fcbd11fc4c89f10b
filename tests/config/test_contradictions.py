"""No job refuses what the configuration accepts, and no setting is ignored: one line before the first job."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.contradictions import RELEASE_MINIMUM, release_adds_up
from config.resolve import resolve
from tests.config.refusal import refusal
from trainer.selection.roc_release import release_counts

ASKED_TWICE = "{checkpoint: rl3, benchmarks: [aime24], k: 9, temperature: 1.0, limit: 3, control: none}"
FREE = "runtime.deterministic=false"
CASES = [
    (["rollout.engine.kind=process"], "kind = process does not repeat a run bit by bit"),
    (["rollout.engine={kind: endpoint, base: 'http://127.0.0.1:1/v1'}"], "kind = endpoint does not repeat"),
    (
        ["rollout.engine.kind=vllm", FREE, "rollout.temperature=0.001"],
        "rollout.temperature = 0.001: rollout.engine.kind = vllm samples at 0, or from 0.01 to 2",
    ),
    (
        ["rollout.engine.kind=vllm", FREE, "eval.plans.rl3.temperature=2.5"],
        "eval.plans.rl3.temperature = 2.5: rollout.engine.kind = vllm samples",
    ),
    (["objective.roc.oversample=1"], "selection = paper has nothing to select from"),
    (["objective.roc.oversample=1", "objective.roc.selection=random"], "selection = random has nothing"),
    (["objective.roc.oversample=1", "objective.roc.selection=release"], "selection = release has nothing"),
    (["objective.roc.selection=none"], "oversample must be 1, not 2"),
    (["objective.roc.penalties=[]"], "selection = paper has no penalty to select by"),
    (
        ["objective.roc.penalties=null", "objective.roc.selection=release"],
        "selection = release has no penalty",
    ),
    (
        ["objective.roc.penalties=[]", "objective.roc.selection=permuted"],
        "selection = permuted has no penalty",
    ),
    (["objective.roc.penalties=[p_err, p_err]"], "objective.roc.penalties names 'p_err' twice"),
    (
        ["objective.roc.selection=random", "objective.roc.penalties=[p_repetition]"],
        "p_repetition of objective.roc.penalties never acts",
    ),
    (["objective.clip=[1.1, 0.2]"], "objective.clip = [1.1, 0.2]: its first bound is at most 1"),
    (["objective.clip=[-0.1, 0.2]"], "objective.clip.0 = -0.1: input should be greater than or equal to 0"),
    (["objective.roc.selection=release", "objective.group_size=15"], "cannot keep G = 15"),
    (["objective.roc.selection=release", "objective.group_size=3"], "group_size = 3 holds fewer"),
    (
        ["objective.optimizer.warmup_steps=17"],
        "warmup_steps = 17 is longer than the stage, rl.rl1.steps = 16",
    ),
    (["rl.rl3.steps=2"], "warmup_steps = 3 is longer than the stage, rl.rl3.steps = 2"),
    (
        ["objective.prompts_per_step=2001"],
        "prompts_per_step = 2001 is more than the pool, data.num_train = 2000",
    ),
    (["data.num_train=8"], "objective.prompts_per_step = 16 is more than the pool"),
    (["rl.filter.problems=15"], "objective.prompts_per_step = 16 is more than rl.filter.problems = 15"),
    (
        ["rollout.tool.state=session", "rollout.tool.name=tests.trainer.example_tool"],
        "state = session is for the Python",
    ),
    (
        ["rollout.tool.state=off", "rollout.tool.name=tests.trainer.example_tool"],
        "state = off is for the Python",
    ),
    (["rollout.tool.name=tests.trainer.example_tool"], "described by the prompt of rollout.system = full"),
    (["rollout.tool.state=off", "sandbox.fail_frac=0.1"], "fail_frac = 0.1 never acts"),
    (["sandbox.wall_s=0.5", "runtime.deterministic=false"], "cpu_s = 1.0 never acts"),
    (["sandbox.preload=[os;x]"], "sandbox.preload.0"),
    (["runtime.sandbox_workers=5000"], "runtime.sandbox_workers = 5000"),
    (["sft.batch_size=24001"], "sft.batch_size = 24001 is more than data.num_sft"),
    (["sft.warmup_frac=0.7"], "sft.warmup_frac = 0.7 is longer than"),
    (["sft.noise.no_tool=1.0"], "no document would compute anything"),
    (["sft.noise.wrong_formula=[1.0, 0.0, 0.0, 0.0]"], "no document of level 1 would be right"),
    (["sft.noise.give_up=1.0"], "retry_bug = 0.15 never acts while sft.noise.give_up = 1"),
    (["sft.noise.first_bug=0"], "never acts while sft.noise.first_bug = 0"),
    (["sft.noise.first_bug=0.0"], "there is no failed call to react to"),
    (["model.revision=0123abc"], "model.revision = '0123abc' is not read while model.path is null"),
    (
        ["model.hidden_size=132"],
        "model.hidden_size = 132 must be model.heads = 4 times an even number from 32",
    ),
    (["model.heads=8"], "model.hidden_size = 128 must be model.heads = 8 times"),
    (["eval.plans.rl3.benchmarks=[aime23]"], "eval.plans.rl3.benchmarks: no 'aime23'; did you mean aime2"),
    (["eval.plans.rl3.benchmarks=[]"], "eval.plans.rl3.benchmarks = []"),
    (["eval.plans.rl3.benchmarks=[aime24, aime24]"], "names 'aime24' twice"),
    (["eval.plans.sft.benchmarks=[procedural, procedural-numbers]"], "asks procedural-numbers of sft"),
    ([f"eval.plans.again={ASKED_TWICE}"], "eval.plans.again asks aime24 of rl3 at temperature 1"),
    (["eval.plans.rl1=null"], "arms are tested by the plan eval.plans.rl1"),
    (["arms.grpo=1"], "arms: arm 'grpo' is not among"),
    (["arms.grpo_2x_prompts=1", "data.num_train=20"], "arm grpo_2x_prompts"),
    (["analysis.top_entropy_frac=0.0"], "analysis.top_entropy_frac = 0.0"),
    (
        ["objective.reward=trainer.selection.reward:even"],
        "no function 'even' there; it has even_ids, coin",
    ),
    (["objective.reward=no_such_module:f"], "No module named 'no_such_module'"),
    (["objective.reward=json:nothing"], "has no attribute 'nothing'"),
    (["objective.reward=sys:path"], "is a list, not a function"),
    (["rollout.tool.name=no_such_tool", "rollout.system=full"], "No module named 'no_such_tool'"),
    (["rollout.tool.name=json", "rollout.system=full"], "or a module with NAME"),
]


@pytest.mark.parametrize(("overrides", "message"), CASES, ids=[" ".join(case) for case, _ in CASES])
def test_a_contradiction_is_one_line_that_names_keys_and_values(overrides: list[str], message: str) -> None:
    assert message in refusal(*overrides)


@pytest.mark.parametrize(
    "overrides",
    [
        ["objective.roc.penalties=[p_format]"],
        ["objective.roc.selection=random", "objective.roc.penalties=[]"],
        ["objective.roc.selection=release", "objective.group_size=16"],
        ["objective.optimizer.warmup_steps=16"],
        ["rl.rl2.steps=2"],
        ["rl.filter=null"],
        ["rollout.tool.name=tests.trainer.example_tool", "rollout.system=full"],
        ["sft.noise.give_up=1.0", "sft.noise.retry_bug=0"],
        ["eval.plans.rl1=null", "arms=null"],
        # An experiment arm leaves a setting of its preset unused; the preset is not at fault.
        ["objective.roc.penalties=[p_err, p_repetition]"],
    ],
    ids=" ".join,
)
def test_settings_next_to_a_contradiction_are_accepted(overrides: list[str]) -> None:
    resolve(overrides=overrides)


def test_several_contradictions_are_reported_at_once() -> None:
    line = refusal("rl.rl3.steps=2", "objective.roc.oversample=1", "eval.plans.rl3.benchmarks=[aime23]")
    assert all(word in line for word in ("rl.rl3.steps", "oversample", "aime23"))


def test_the_release_rule_refuses_the_same_groups_before_and_within_a_run() -> None:
    for G in range(2 * RELEASE_MINIMUM, 33):
        for num in {2 * G, 3 * G, G + 1}:
            for num_negative in range(1, num):
                try:
                    release_counts(num - num_negative, num_negative, G)
                except ValueError:
                    assert not release_adds_up(num, num_negative, G)
                else:
                    assert release_adds_up(num, num_negative, G)


def test_a_module_that_prints_leaves_or_raises_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, code, message in (
        ("leaves", "import os; os._exit(0)", "its import ended the process"),
        ("exits", "raise SystemExit(3)", "its import raised SystemExit: 3"),
        ("raises", "print('hello')\n1 / 0", "its import raised ZeroDivisionError"),
        ("imports", "import no_such_package", "No module named 'no_such_package'"),
        (
            "no_json",
            "NAME, DESCRIPTION, PARAMETERS = 'a', 'b', {'x': {1}}\ndef run(): pass",
            "PARAMETERS is not JSON",
        ),
        ("no_run", "NAME, DESCRIPTION, PARAMETERS, run = 'a', 'b', {}, 3", "run a function"),
    ):
        (tmp_path / f"tool_{name}.py").write_text(code)
        line = refusal(f"rollout.tool.name=tool_{name}", "rollout.system=full")
        assert message in line, name
