"""The decoder scores as transformers' modules, and refuses what it cannot decode."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import GPT2Config, Qwen3Config

from tests.trainer.tiny_models import ARCHITECTURES, VOCAB, tiny_model
from trainer.engines.decoder import TOLERANCE, Decoder, Shape, check

OPTIONS: dict[str, Any] = {"max_len": 64, "device": "cpu", "dtype": torch.float32}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_log_probs_equal_those_of_transformers(architecture):
    model = tiny_model(architecture)
    assert check(Decoder.from_model(model, **OPTIONS), model) <= TOLERANCE


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_saved_folder_decodes_like_the_module_in_memory(architecture, tmp_path):
    model = tiny_model(architecture)
    model.save_pretrained(tmp_path)
    tokens, positions = torch.tensor([3]), torch.tensor([0])
    saved = Decoder.from_folder(tmp_path, **OPTIONS)
    memory = Decoder.from_state_dict(model.state_dict(), model.config, **OPTIONS)
    assert torch.equal(
        saved.step(saved.allocate(), tokens, positions), memory.step(memory.allocate(), tokens, positions)
    )


def test_rows_padded_into_one_prefill_score_as_rows_prefilled_alone():
    # Public fault B26: padding without a mask.
    decoder = Decoder.from_model(tiny_model(), **OPTIONS)
    contexts = [[5, 6, 7], list(range(20)), [9]]
    together, alone = decoder.allocate(), decoder.allocate()
    decoder.prefill(together, [0, 1, 2], [0, 0, 0], contexts)
    for row, context in enumerate(contexts):
        decoder.prefill(alone, [row], [0], [context])
    tokens, positions = torch.tensor([1, 2, 3]), torch.tensor([len(context) for context in contexts])
    torch.testing.assert_close(
        decoder.step(together, tokens, positions), decoder.step(alone, tokens, positions), rtol=0, atol=1e-5
    )


def test_weights_changed_after_loading_do_not_reach_the_decoder():
    model = tiny_model()
    decoder = Decoder.from_model(model, **OPTIONS)
    before = decoder.step(decoder.allocate(), torch.tensor([3]), torch.tensor([0]))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert torch.equal(before, decoder.step(decoder.allocate(), torch.tensor([3]), torch.tensor([0])))


def test_a_decoder_with_other_scores_is_refused():
    model, other = tiny_model(), tiny_model(seed=1)
    decoder = Decoder(other.state_dict(), other.config, **OPTIONS)
    with pytest.raises(ValueError, match="differ from transformers"):
        check(decoder, model)


def test_other_architectures_are_refused_by_name():
    with pytest.raises(ValueError, match="gpt2"):
        Shape.from_config(GPT2Config())


def test_a_rotary_embedding_that_depends_on_the_length_is_refused():
    model = tiny_model()
    config = Qwen3Config(
        **{
            **model.config.to_dict(),
            "rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0},
        }
    )
    with pytest.raises(ValueError, match="dynamic"):
        Decoder(model.state_dict(), config, **OPTIONS)


def test_a_missing_weight_is_named():
    model = tiny_model()
    state = {name: tensor for name, tensor in model.state_dict().items() if "layers.1.mlp.down" not in name}
    with pytest.raises(ValueError, match=r"layers\.1\.mlp\.down_proj"):
        Decoder.from_state_dict(state, model.config, **OPTIONS)


def test_a_folder_without_config_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"no config\.json"):
        Decoder.from_folder(tmp_path, **OPTIONS)


def test_the_scores_cover_the_models_vocabulary():
    decoder = Decoder.from_model(tiny_model(), **OPTIONS)
    assert decoder.step(decoder.allocate(), torch.tensor([0, 1]), torch.tensor([0, 0])).shape == (2, VOCAB)
