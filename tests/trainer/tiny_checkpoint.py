"""A checkpoint as the suite publishes it, made in a second: random Qwen3, its own tokenizer, manifest."""

from __future__ import annotations

from pathlib import Path

from config.model import Config
from config.resolve import resolve
from records.manifest import write_folder
from trainer.model import random_model, save_model
from trainer.rollout.chat import TURN_END, chat_format
from trainer.rollout.tokenizer import END_OF_TEXT, save_tokenizer, train_tokenizer

VOCAB = 320
TEXT = "What is the sum of 12 and 34? The sum of 12 and 34 is 46, which is the answer. print(12 + 34)\n"


def tiny_config(*overrides: str) -> Config:
    """The defaults at small sizes."""
    sizes = (
        "model.hidden_size=64",
        "model.ffn_size=96",
        "model.layers=2",
        "model.heads=2",
        "model.kv_heads=1",
    )
    small = (
        f"model.vocab_size={VOCAB}", "rollout.kv_tokens=16384", "rollout.max_prompt=256", "eval.max_prompt=256",
        "eval.max_response=64", "objective.group_size=4", "rl.rl1.max_response=48", "rl.rl1.max_turns=3",
        "objective.prompts_per_step=3", "objective.optimizer.warmup_steps=1", "analysis.bootstrap_draws=100",
    )  # fmt: skip
    return resolve(overrides=[*sizes, *small, *overrides])


def make_checkpoint(root: Path, *, name: str = "sft", rl_steps: int = 0) -> Path:
    """Publish `root/checkpoints/<name>` and return it."""
    config = tiny_config()
    tokenizer = train_tokenizer([TEXT] * 40, VOCAB)
    (end_id,), (pad_id,) = (tokenizer.encode(token).ids for token in (TURN_END, END_OF_TEXT))
    made = root / "made"
    made.mkdir(parents=True)
    save_model(random_model(config.model, VOCAB, end_id, pad_id), made)
    save_tokenizer(tokenizer, made, chat_format(config.rollout))
    folder = root / "checkpoints" / name
    facts = {"rl_steps": rl_steps}
    write_folder(folder, made, {"stage": name, "parent": None, "data": None, "facts": facts}, {})
    return folder
