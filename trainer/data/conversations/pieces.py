"""`pieces_of`: a conversation as the text that training reads, with the part that enters the loss.

A conversation whose one function is the suite's Python tool has the form of a rollout: the tool's own prompt, and a
`<reason>` at the head of each turn. Any other has the native form, plain ChatML, in which BFCL and IFEval ask.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from trainer.data.conversations.conversation import Conversation, Message
from trainer.rollout.chat import TURN_END, ChatFormat
from trainer.rollout.chat_text import ChatText, turn_text
from trainer.rollout.chatml import chatml, follow_up


@dataclass(frozen=True, slots=True)
class Piece:
    """Text that is encoded apart from its neighbours."""

    text: ChatText
    is_trained: bool
    """True for what the assistant writes."""


def pieces_of(conversation: Conversation, chat: ChatFormat) -> Iterator[Piece]:
    """Pieces in order; the first is a prompt, the last a turn of the assistant."""
    agentic = is_agentic(conversation, chat)
    functions = [json.loads(signature) for signature in conversation.functions]
    shown: list[Message] = []
    is_first = True
    for message in conversation.messages:
        if message.role != "assistant":
            shown.append(message)
            continue
        if agentic:
            text = chat.prompt(shown[0].text) if is_first else chat.tool_response(shown[0].text)
        else:
            asked = [{"role": each.role, "content": each.text} for each in shown]
            text = chatml(asked, functions) if is_first else follow_up(asked)
        yield Piece(text, False)
        yield Piece(turn_text(written(message, agentic=agentic)) + TURN_END, True)
        shown, is_first = [], False


def is_agentic(conversation: Conversation, chat: ChatFormat) -> bool:
    """Whether rollouts could have written it: the Python tool alone, one question, results of one call each."""
    if [json.loads(signature)["name"] for signature in conversation.functions] != [chat.tool_name]:
        return False
    roles = [message.role for message in conversation.messages]
    others = ["tool" if at else "user" for at in range(len(roles) // 2)]
    return roles == [role for other in others for role in (other, "assistant")]


def written(message: Message, *, agentic: bool) -> str:
    r"""A turn of the assistant: its text, then its calls inside tags.

    >>> from trainer.data.conversations.conversation import Call
    >>> written(Message(role="assistant", text="", calls=(Call.of("now", {}),)), agentic=False)
    '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
    """
    calls = [f"<tool_call>\n{call.text()}\n</tool_call>" for call in message.calls]
    text = f"{message.text}</reason>" if agentic else message.text
    return "\n".join([*([text] if text else []), *calls])
