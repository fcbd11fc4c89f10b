"""SmolLM2-135M, a real pretrained model, through template check, engine and trainer, if its folder is present."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from config.resolve import resolve
from records.problem import Problem
from records.tool_call import Limits
from tests.trainer.fakes import AdmitAll, ScriptedTool
from tests.trainer.tiny_models import teacher_forced
from trainer.engines.local import LocalEngine
from trainer.rollout.chat import chat_format
from trainer.rollout.loop import RolloutLoop
from trainer.rollout.task import RolloutSettings, Task
from trainer.rollout.template_check import check_template
from trainer.rollout.tokenizer import FolderCodec
from trainer.rollout.tool_episode import ToolEpisodes
from trainer.stages.base_checkpoint import _copy_pretrained
from trainer.update.grpo import GrpoTrainer, UpdateBatch
from trainer.update.training_rows import row_of


@pytest.fixture(scope="module")
def base(project_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = resolve([project_root / "config" / "smol.yaml"])
    source = project_root / str(config.model.path)
    if not (source / "config.json").is_file():
        pytest.skip(f"{config.model.path} is not here; docs/smollm2_from_package.py makes it from a package")
    made = tmp_path_factory.mktemp("smol")
    _copy_pretrained(source, made, chat_format(config.rollout))
    return made


@pytest.mark.slow
def test_smollm2_scores_in_engine_and_trainer_as_in_transformers(base: Path, project_root: Path) -> None:
    """Rollouts of two problems, a tool response where the model calls; then one update on packed rows."""
    config = resolve([project_root / "config" / "smol.yaml"], ["objective.layout=packed"])
    chat = chat_format(config.rollout)
    check_template(base, chat)
    engine = LocalEngine(engine=0, capacity_tokens=4096, max_len=400)
    engine.take_weights(base, version=0)
    loop = RolloutLoop(
        engines=[engine], policy=AdmitAll(), episodes=ToolEpisodes(tool=ScriptedTool(), chat=chat),
        codec=FolderCodec.load(base),
        settings=RolloutSettings(
            run="r", checkpoint="c", benchmark="rl1", max_prompt=256, max_response=24, max_turns=3, temperature=1.0,
            top_p=1.0, seed=5, policy_version=0, limits=Limits(), rejoin_iterations=2,
        ),
    )  # fmt: skip
    problems = [Problem(id=name, prompt=f"What is {name}?", answer="1") for name in ("1 + 1", "12 * 12")]
    tasks = [Task(problem=problem, sample=i) for problem in problems for i in range(2)]
    rows = [row_of(trajectory, (-1.0) ** trajectory.sample) for trajectory, _ in loop.run(tasks)]
    trainer = GrpoTrainer(base, config.objective, torch.device("cpu"))
    for row, trained in zip(rows, trainer.logprobs(rows), strict=True):
        behaviour = [p for p, on in zip(row.logprob, row.mask, strict=True) if on]
        exact = teacher_forced(trainer.model, row.ids)
        reference = [exact[t - 1].item() for t, on in enumerate(row.mask) if on]
        assert behaviour == pytest.approx(reference, abs=1e-4)
        assert trained == pytest.approx(reference, abs=1e-4)
    before = trainer.export_weights()["model.norm.weight"].clone()
    metrics = trainer.update(UpdateBatch(rows=rows, lr=1e-5))
    assert metrics.mismatch.max_abs_dlogp < 1e-4
    assert metrics.shared_frac > 0
    assert not torch.equal(before, trainer.export_weights()["model.norm.weight"])
