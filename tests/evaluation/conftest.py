"""The fixtures of the trainer's tests: an evaluation uses the trainer's engine and rollout loop."""

from tests.trainer.conftest import tiny_checkpoint, torch_settings

__all__ = ["tiny_checkpoint", "torch_settings"]
