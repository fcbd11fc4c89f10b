"""The template of a checkpoint must match the conversation of its rollouts, or training does not start."""

from __future__ import annotations

import json
import shutil
from importlib.util import find_spec
from pathlib import Path

import pytest

from records.errors import ConfigError
from tests.trainer.tiny_checkpoint import tiny_config
from trainer.rollout.chat import chat_format, chat_template
from trainer.rollout.template_check import check_template, suffix_of
from trainer.stages.base_checkpoint import TEMPLATE, _copy_pretrained

CHATML = (
    "{% for message in messages %}{% if loop.first and message.role != 'system' %}<|im_start|>system\nYou are "
    "an assistant<|im_end|>\n{% endif %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""As in small instruct models: no tool role, no opening."""


def _templates() -> Path | None:
    """Where TRL keeps the chat templates of model families."""
    spec = find_spec("trl")
    places = None if spec is None else spec.submodule_search_locations
    return Path(next(iter(places))) / "chat_templates" if places else None


TEMPLATES = _templates()


@pytest.fixture
def folder(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_checkpoint, tmp_path / "checkpoint"))


@pytest.mark.parametrize("system", ["brief", "full"])
def test_the_suites_own_template_passes(system: str, folder: Path) -> None:
    chat = chat_format(tiny_config(f"rollout.system={system}").rollout)
    (folder / TEMPLATE).write_text(chat_template(chat))
    check_template(folder, chat)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (CHATML, "what follows a tool call"),
        ("REPLACED", "the prompt"),
        ("{{ messages[-1].content }}<|im_end|>\n", "rewrites earlier turns"),
    ],
    ids=["another model's", "another prompt", "history rewritten"],
)
def test_another_template_is_refused_in_one_line(template: str, message: str, folder: Path) -> None:
    chat = chat_format(tiny_config().rollout)
    if template == "REPLACED":
        template = chat_template(chat_format(tiny_config("rollout.system=full").rollout))
    (folder / TEMPLATE).write_text(template)
    with pytest.raises(ConfigError, match=message) as refused:
        check_template(folder, chat)
    assert "\n" not in str(refused.value)


@pytest.mark.skipif(
    TEMPLATES is None, reason="TRL (extra race), which holds the families' templates, is absent"
)
@pytest.mark.parametrize("family", ["qwen2_5", "qwen3", "qwen3_instruct_2507"])
def test_the_template_of_a_family_is_refused_and_replaced_in_the_base(
    family: str, folder: Path, tmp_path: Path
) -> None:
    assert TEMPLATES is not None
    chat = chat_format(tiny_config("rollout.system=full").rollout)
    (folder / TEMPLATE).write_text((TEMPLATES / f"{family}.jinja").read_text())
    with pytest.raises(
        ConfigError, match=r"renders what follows a tool call|rewrites earlier turns"
    ) as refused:
        check_template(folder, chat)
    assert "\n" not in str(refused.value)
    made = tmp_path / "made"
    made.mkdir()
    _copy_pretrained(folder, made, chat)
    check_template(made, chat)


def test_a_missing_newline_after_the_turn_is_detected(folder: Path) -> None:
    """B10: the suffix is the difference of two renders, so it contains the newline that ends the turn."""
    chat = chat_format(tiny_config().rollout)
    broken = chat_template(chat).replace(json.dumps("<|im_end|>\n"), json.dumps("<|im_end|>"))
    assert broken != chat_template(chat)
    (folder / TEMPLATE).write_text(broken)
    with pytest.raises(ConfigError, match="what follows a tool call"):
        check_template(folder, chat)


def test_a_pretrained_base_gets_the_template_of_its_rollouts(folder: Path, tmp_path: Path) -> None:
    (folder / TEMPLATE).write_text(CHATML)
    settings = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(settings | {"chat_template": CHATML}))
    made = tmp_path / "made"
    made.mkdir()
    chat = chat_format(tiny_config().rollout)
    _copy_pretrained(folder, made, chat)
    check_template(made, chat)


def test_the_suffix_starts_where_the_turn_ended() -> None:
    def render(messages, opening: bool) -> str:
        text = "".join(f"{m['role']}:{m['content']}<|im_end|>\n" for m in messages)
        return text + "assistant:" * opening

    assert suffix_of(render) == "\ntool:2<|im_end|>\nassistant:"
