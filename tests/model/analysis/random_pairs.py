"""Random models and sentence pairs of all shapes, for the identities that the instruments must keep."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from model.network.transformer import Transformer
from model.storage.checkpoint import dequantise_rows, quantise_rows
from tests.model.helpers import random_model, random_tokens

BOS, EOS = 2, 3
SHAPES = {  # norm, layers of the encoder and the decoder, biases, activation, int8 weights
    "pre": ("pre", 2, 4, True, "relu", False),
    "post": ("post", 2, 3, True, "relu", False),
    "one layer without biases": ("pre", 1, 1, False, "relu", False),
    "post, one layer without biases": ("post", 1, 1, False, "gelu", False),
    "deep int8": ("pre", 4, 3, True, "silu", True),
    "post int8": ("post", 3, 2, True, "silu", True),
    "embedding of BART": ("post", 2, 1, True, "gelu", False),
    "T5": ("pre", 2, 3, True, "gelu_new", False),
    "SSRU": ("post", 2, 3, True, "relu", False),
}
BART = {"positions": "learned", "n_positions": 20, "embedding_norm": True}
T5 = {"positions": "relative", "n_buckets": 8, "max_distance": 6, "rms_norm": True, "gated": True, "d_key": 5}
SSRU = {"positions": "marian", "autoregression": "ssru"}
SETTINGS = {"embedding of BART": BART, "T5": T5, "SSRU": SSRU}
shapes = pytest.mark.parametrize("shape", SHAPES)


def model_of(shape: str, seed: int = 0) -> Transformer:
    norm, encoder, decoder, biases, activation, int8 = SHAPES[shape]
    layers = {"n_encoder_layers": encoder, "n_decoder_layers": decoder}
    others = SETTINGS.get(shape, {}) | {"activation": activation, "output_bias": biases}
    model = random_model(seed, norm=norm, **layers, **others)
    if not biases:
        with torch.no_grad():
            for module in model.modules():
                if isinstance(module, nn.Linear | nn.LayerNorm) and module.bias is not None:
                    module.bias.zero_()
    if int8:
        weights = {name: weight.clone() for name, weight in model.state_dict().items()}
        model.load_state_dict(weights | dequantise_rows(quantise_rows(weights)))
    return model


def sentence_pair(seed: int = 0, source: int = 6, target: int = 5) -> tuple[Tensor, Tensor, Tensor]:
    """The ids that the encoder reads, that the decoder reads and that it predicts."""
    words = random_tokens(source - 1, seed=seed)
    predicted = torch.cat((random_tokens(target - 1, seed=seed + 1), torch.tensor([EOS])))
    read = torch.cat((torch.tensor([BOS]), predicted[:-1]))
    return torch.cat((words, torch.tensor([EOS]))), read, predicted
