"""ONNX Runtime with the weights of one of our models, float32, for comparison.

The encoder and one decoder step are exported by torch. The step returns every attention weight and the grown
cache, so that it does the work that Headlight does.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import numpy as np
import onnxruntime
import torch
from torch import Tensor, nn

from model.network.layers import DecoderLayer
from model.network.transformer import Transformer
from model.text.tokenizer import BOS_ID, PAD_ID, UNK_ID

FIRST_PREDICTED = max(PAD_ID, UNK_ID, BOS_ID) + 1


class Encoder(nn.Module):
    """Source ids to the keys and values of the decoder and every weight."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(self, source: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Keys and values [M, 1, H, S, K], weights [1, L, H, S, S]."""
        encoded = self.model.encode(source, explicit=True)
        key, value = (torch.stack([layer[i] for layer in encoded.cross_kv]) for i in (0, 1))
        return key, value, cast(Tensor, encoded.weights)


class Step(nn.Module):
    """One token and the cache to the next token, the grown cache and every weight."""

    def __init__(self, model: Transformer) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, token: Tensor, position: Tensor, past: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Tensor, ...]:
        """`past` is [2, M, 1, H, T, K]; the weights are [M, H, T + 1] and [M, H, S]."""
        model = self.model
        tokens = model.target_embedding.tokens
        x = tokens(token) * tokens.embedding_dim**0.5 + position
        pasts, kept = [], []
        for place, each in enumerate(model.decoder):
            layer = cast(DecoderLayer, each)
            query, own = layer.self_attention.queries_keys_values(layer.self_residual.pre(x))
            grown = torch.stack([torch.cat((past[i, place], own[i]), 2) for i in (0, 1)])
            y, _, _, weights, _ = layer.self_attention(query, type(own)(grown[0], grown[1]), explicit=True)
            x = layer.self_residual.post(x, y)
            query = layer.cross_attention.queries(layer.cross_residual.pre(x))
            memory = type(own)(key[place], value[place])
            y, _, _, cross, _ = layer.cross_attention(query, memory, explicit=True)
            x = layer.cross_residual.post(x, y)
            x = layer.feed_forward_residual.post(x, layer.feed_forward(layer.feed_forward_residual.pre(x)))
            pasts.append(grown)
            kept.append((weights[0, :, 0], cross[0, :, 0]))
        logits = model.output(model.decoder_norm(x))[0, 0]
        return (
            logits[FIRST_PREDICTED:].argmax() + FIRST_PREDICTED,
            logits.log_softmax(-1),
            torch.stack(pasts, 1),
            *(torch.stack([pair[i] for pair in kept]) for i in (0, 1)),
        )


class Runtime:
    """Greedy search with both sessions."""

    def __init__(self, model: Transformer) -> None:
        config = model.config
        self.positions = model.target_embedding.table(256).numpy()
        self.empty = np.zeros((2, config.n_decoder_layers, 1, config.n_heads, 0, config.d_head), np.float32)
        source = torch.ones(1, 5, dtype=torch.long)
        # The export keeps the branch that its example takes, and ours is another one for short rows.
        with patch("model.network.attention.softmax", lambda scores: scores.softmax(-1)):
            self.encoder = session(Encoder(model), (source,), {"source": {1: "s"}})
            self.step = session(Step(model), step_inputs(model), STEP_AXES)

    def translate(self, source: Tensor, length: int) -> list[int]:
        """The ids of a translation of this length, with every weight computed on the way."""
        key, value, kept = self.encoder.run(None, {"source": source.numpy()})
        token, past, found, weights = np.array([[BOS_ID]]), self.empty, [], [kept]
        for place in range(length):
            position = self.positions[None, place : place + 1]
            given = {"token": token, "position": position, "past": past, "key": key, "value": value}
            best, _, past, *steps = self.step.run(None, given)
            weights += steps
            found.append(int(best))
            token = best.reshape(1, 1)
        return found


STEP_AXES = {"past": {4: "t"}, "key": {3: "s"}, "value": {3: "s"}}


def step_inputs(model: Transformer) -> tuple[Tensor, ...]:
    """Inputs of one step, for a source of 5 tokens and 3 target tokens in the cache."""
    config = model.config
    heads = (config.n_decoder_layers, 1, config.n_heads)
    past, cross = torch.zeros(2, *heads, 3, config.d_head), torch.zeros(*heads, 5, config.d_head)
    return torch.ones(1, 1, dtype=torch.long), torch.zeros(1, 1, config.d_model), past, cross, cross


def export(module: nn.Module, inputs: tuple[Tensor, ...], axes: dict[str, dict[int, str]], file: str) -> None:
    names = list(module.forward.__annotations__)[: len(inputs)]
    torch.onnx.export(module.eval(), inputs, file, input_names=names, dynamic_axes=axes, dynamo=False)


def session(module: nn.Module, inputs: tuple[Tensor, ...], axes: dict[str, dict[int, str]]) -> Any:
    """An exported module with as many threads as torch uses; idle threads sleep."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "model.onnx")
        export(module, inputs, axes, file)
        return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
