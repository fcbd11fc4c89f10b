"""`serving_template`: the chat template of an exported checkpoint, which also renders calls that a server parsed.

A server with a tool parser takes the call out of the text, and a client sends it back as `tool_calls`. The template of
a checkpoint in training renders text alone; it is part of the checkpoint's digest and stays as it is.
"""

from __future__ import annotations

import json

from trainer.rollout.chat import OPENING, TURN_END

_ASSISTANT = "{%- elif message.role == 'assistant' %}"
_END = "{%- endif %}"


def serving_template(template: str) -> str:
    """Add the calls to the assistant messages of the suite's template; any other template stays as it is.

    >>> serving_template("{{ messages }}")
    '{{ messages }}'
    """
    start = template.find(_ASSISTANT)
    end = template.find(_END, start)
    if start < 0 or end < 0 or json.dumps(OPENING) not in template[start:end]:
        return template
    opening, ending = json.dumps(OPENING), json.dumps(f"{TURN_END}\n")
    body = (
        "{%- if message.tool_calls %}"
        "{{- " + opening + " + (message.content or '').rstrip('\\n') }}"
        "{%- for call in message.tool_calls %}"
        "{{- '\\n<tool_call>\\n' + ({'name': call.function.name, 'arguments': call.function.arguments} | tojson)"
        " + '\\n</tool_call>' }}"
        "{%- endfor %}"
        "{%- else %}"
        "{{- " + opening + " + message.content }}"
        "{%- endif %}"
        "{{- " + ending + " }}"
    )
    return template[:start] + _ASSISTANT + body + template[end:]
