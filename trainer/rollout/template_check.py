"""`check_template`: the chat template of a checkpoint must render the conversation that rollouts build.

A rollout renders no template: it appends ids to ids. Later users of the checkpoint render its template and would send
other prompts if the two differed (public faults B10, B11). The text after a turn that called the tool is the difference
of two renders of one short conversation, never a render of the tool message alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from records.errors import ConfigError
from trainer.rollout.chat import TURN_END, ChatFormat
from trainer.rollout.tokenizer import transformers_tokenizer

Message = dict[str, str]
Render = Callable[[Sequence[Message], bool], str]
"""Messages, and whether the opening of the next turn follows, to text."""

QUESTION, TURN, RESPONSE = "What is 1 + 1?", "let me see</reason>", "2"


def suffix_of(render: Render) -> str:
    r"""Text that the template inserts between an assistant turn and the next one around a tool response.

    Raises ConfigError when the template rewrites earlier turns (B11).

    >>> def render(messages, opening):
    ...     return "".join(m["content"] + "<|im_end|>\n" for m in messages) + "A:" * opening
    >>> suffix_of(render)
    '\n2<|im_end|>\nA:'
    """
    history = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": TURN}]
    before = render(history, False)
    after = render([*history, {"role": "tool", "content": RESPONSE}], True)
    end = before.rfind(TURN_END)
    if end < 0 or not after.startswith(before[: end + len(TURN_END)]):
        raise ConfigError(
            "the chat template rewrites earlier turns when a tool response follows, so users of its checkpoints would "
            "send other prompts than in training; publish the base again, which writes the suite's template"
        )
    return after[end + len(TURN_END) :]


def check_template(folder: Path, chat: ChatFormat) -> None:
    """Compare a checkpoint's template with the conversation of its rollouts. Raises ConfigError if they differ."""
    tokenizer = transformers_tokenizer(folder)
    if tokenizer.chat_template is None:
        return

    def render(messages: Sequence[Message], opening: bool) -> str:
        text = tokenizer.apply_chat_template(list(messages), tokenize=False, add_generation_prompt=opening)
        assert isinstance(text, str)
        return text

    pairs = [("what follows a tool call", suffix_of(render), chat.tool_response(RESPONSE))]
    # The template shows the tool of the checkpoint's training; a user's tool replaces it in rollouts.
    if chat.own is None:
        question = [{"role": "user", "content": QUESTION}]
        pairs.append(("the prompt", render(question, True), chat.prompt(QUESTION)))
    for what, rendered, built in pairs:
        if rendered != built:
            raise ConfigError(
                f"{folder}: its chat template renders {what} as {rendered!r}, rollouts as {built!r}; "
                "publish the base again, which writes the suite's template"
            )
