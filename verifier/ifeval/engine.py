"""`follow`: runs the reference checks of IFEval in a worker process, because their regular expressions can backtrack.

It sets no alarm and no signal; the parent kills the process when a response takes too long.
"""

from __future__ import annotations

import json

from records.problem_params import Instruction
from verifier.ifeval.checks import check_response, flags_of, require_checks


def follow(request: str, response: str) -> str:
    """Return the strict and loose flags of a response, such as '101/111'.

    Args:
        request: JSON of the prompt and its instructions.
        response: text without reasoning and end marks.
    """
    asked = json.loads(request)
    instructions = [Instruction(id=row["id"], kwargs=row["kwargs"]) for row in asked["instructions"]]
    found = check_response(asked["prompt"], instructions, response)
    return f"{flags_of(found.strict)}/{flags_of(found.loose)}"


OPERATIONS = {"follow": follow}


def warm_up() -> None:
    """Load the checks, the sentence tokenizer and the language profiles before the first response."""
    require_checks()
    language = Instruction(id="language:response_language", kwargs={"language": "en"})
    sentences = Instruction(
        id="length_constraints:number_sentences", kwargs={"num_sentences": 1, "relation": "at least"}
    )
    check_response("", [language, sentences], "The river runs down to the sea. It carries stones.")
