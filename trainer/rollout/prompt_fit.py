"""`fitting`: the problems whose prompts fit, decided for the whole pool before the first step."""

from __future__ import annotations

from collections.abc import Sequence

from records.errors import ConfigError
from records.problem import Problem
from trainer.rollout.chat import ChatFormat, Codec


def fitting(
    problems: Sequence[Problem], chat: ChatFormat, codec: Codec, max_prompt: int, *, at_least: int, where: str
) -> list[Problem]:
    """Return the problems whose prompts fit into `max_prompt` tokens; one line names the number of others.

    Args:
        problems: the pool.
        chat: conversation of the rollouts, including the tool's signature.
        codec: tokenizer of the checkpoint.
        max_prompt: `rollout.max_prompt`.
        at_least: problems that a step needs.
        where: the job, for messages.

    Raises:
        ConfigError: fewer than `at_least` fit.
    """
    lengths = [len(codec.encode(chat.prompt(problem.prompt))) for problem in problems]
    fit = [problem for problem, length in zip(problems, lengths, strict=True) if length <= max_prompt]
    if len(fit) == len(problems):
        return fit
    bare, num_unfit = len(codec.encode(chat.prompt(""))), len(problems) - len(fit)
    line = (
        f"{where}: {num_unfit} of {len(problems)} prompts take more than rollout.max_prompt = {max_prompt} tokens "
        f"(the longest takes {max(lengths)}; without any question it is {bare})"
    )
    if len(fit) < at_least:
        brief = ", or set rollout.system to brief" if chat.system == "full" else ""
        raise ConfigError(
            f"{line}; the {len(fit)} that fit do not fill a step of {at_least}: raise rollout.max_prompt{brief}"
        )
    print(f"{line}; they are left out", flush=True)
    return fit
