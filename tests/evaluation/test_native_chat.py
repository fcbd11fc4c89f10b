"""The model's own chat: a foreign template is used, one of the suite is replaced by plain ChatML."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evaluation.conversations.native_chat import NativeChat
from records.errors import ConfigError
from trainer.rollout.chatml import follow_up

HELLO = [{"role": "user", "content": "Hello"}]
PLAIN = "<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
FUNCTION = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}


def with_template(checkpoint: Path, folder: Path, template: str) -> Path:
    shutil.copytree(checkpoint, folder)
    (folder / "chat_template.jinja").write_text(template)
    return folder


def test_a_checkpoint_of_the_suite_gets_plain_chatml(tiny_checkpoint: Path) -> None:
    assert NativeChat.of(tiny_checkpoint).opening(HELLO) == PLAIN


def test_a_folder_without_template_gets_plain_chatml(tmp_path: Path) -> None:
    assert NativeChat.of(tmp_path).opening(HELLO) == PLAIN


def test_a_foreign_template_is_used(tiny_checkpoint: Path, tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}{{ tools | length if tools }}"
    )
    chat = NativeChat.of(with_template(tiny_checkpoint, tmp_path / "foreign", template))
    assert chat.opening(HELLO) == "[user] Hello"
    assert chat.opening(HELLO, [FUNCTION, FUNCTION]) == "[user] Hello2"


def test_a_template_without_functions_is_replaced_if_there_are_functions(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    chat = NativeChat.of(with_template(tiny_checkpoint, tmp_path / "foreign", "{{ messages[0].content }}"))
    assert chat.opening(HELLO) == "Hello"
    assert '"name": "f"' in chat.opening(HELLO, [FUNCTION])
    assert chat.opening(HELLO, [FUNCTION]).endswith(PLAIN)


def test_functions_join_an_existing_system_message() -> None:
    text = NativeChat().opening([{"role": "system", "content": "Be brief."}, *HELLO], [FUNCTION])
    assert text.count("<|im_start|>system") == 1
    assert text.index("Be brief.") < text.index("<tools>") < text.index("Hello")


def test_results_of_one_step_share_a_message() -> None:
    text = follow_up([{"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}])
    assert text.startswith("\n<|im_start|>user\n<tool_response>\n1\n</tool_response>\n<tool_response>\n2\n")
    assert text.count("<|im_start|>user") == 1


def test_an_unreadable_tokenizer_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    with pytest.raises(ConfigError, match=r"tokenizer\.json is missing"):
        NativeChat.of(tmp_path)
