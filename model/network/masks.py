"""Attention masks, boolean: True means that the query may attend to the key."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(tokens: Int[Tensor, "B S"], pad_id: int) -> Bool[Tensor, "B 1 1 S"]:
    """True for keys that are real tokens; broadcasts over heads and queries."""
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(queries: int, keys: int, device: torch.device | None = None) -> Bool[Tensor, "queries keys"]:
    """Keys at or before each query (section 3.2.3).

    The queries are the last `queries` of the `keys` positions: all of them for a whole sentence.
    """
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)
