import pytest
import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from model.analysis.attribution import head_vectors, norm_weights, rollout
from model.network.attention import AttentionOutput, MultiHeadAttention
from model.network.masks import causal_mask
from model.network.transformer import Transformer
from model.text.tokenizer import BOS_ID
from tests.model.helpers import random_model, random_numbers, random_tokens
from tests.numerics import assert_exact

pytestmark = pytest.mark.usefixtures("float64")


SOURCE = random_tokens(6, seed=1)
PREDICTED = random_tokens(5, seed=2)
READ = torch.cat((torch.tensor([BOS_ID]), PREDICTED[:-1]))


def attentions(model: Transformer) -> dict[str, list[MultiHeadAttention]]:
    """The attention modules of each kind, by layer."""
    return {
        "encoder": [block.self_attention for block in model.encoder],
        "decoder": [block.self_attention for block in model.decoder],
        "cross": [block.cross_attention for block in model.decoder],
    }


def observe(model: Transformer) -> dict[str, list[tuple[Tensor, Tensor, Tensor]]]:
    """Values, weights and output of every attention sub-layer in one explicit pass over the pair."""
    seen: dict[MultiHeadAttention, tuple[Tensor, Tensor, Tensor]] = {}

    def note(module: MultiHeadAttention, arguments: tuple, output: AttentionOutput) -> None:
        seen[module] = (arguments[1].value, output.weights, output.y)

    handles: list[RemovableHandle] = [
        module.register_forward_hook(note) for kind in attentions(model).values() for module in kind
    ]
    with torch.no_grad():
        encoded = model.encode(SOURCE[None], explicit=True)
        model.decode(READ[None], encoded, explicit=True)
    for handle in handles:
        handle.remove()
    return {kind: [seen[module] for module in modules] for kind, modules in attentions(model).items()}


def cells(attention: MultiHeadAttention, value: Tensor, weights: Tensor) -> Tensor:
    """a_ij f(x_j) as the paper writes it, [head, query, key, width], head by head."""
    width = value.shape[-1]
    vectors = []
    for head in range(attention.n_heads):
        own = attention.output.weight[:, head * width : (head + 1) * width]
        vectors.append(weights[0, head, :, :, None] * (value[0, head] @ own.T))
    return torch.stack(vectors)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_vectors_of_all_heads_and_the_bias_sum_to_the_output_of_the_sub_layer(norm: str) -> None:
    model = random_model(norm=norm)
    modules = attentions(model)
    for kind, layers in observe(model).items():
        for attention, (value, weights, output) in zip(modules[kind], layers, strict=True):
            total = (weights @ head_vectors(attention, value)).sum(1) + attention.output.bias
            assert_exact(total, output)
            assert float(attention.output.bias.detach().abs().max()) > 0.01


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_norm_weights_are_the_norms_of_each_cells_vector(norm: str) -> None:
    model = random_model(norm=norm)
    found = norm_weights(model, SOURCE, READ)
    modules = attentions(model)
    for kind, layers in observe(model).items():
        kinds = getattr(found, kind)
        assert len(kinds) == len(layers)
        for layer, (value, weights, output) in enumerate(layers):
            vectors = cells(modules[kind][layer], value, weights)
            assert_exact(kinds[layer], vectors.norm(dim=-1))
            total = vectors.sum((0, 2)) + modules[kind][layer].output.bias
            assert_exact(total, output[0])


def test_shares_of_norms_add_up_to_1_and_a_row_of_zeros_stays() -> None:
    norms = norm_weights(random_model(), SOURCE, READ)
    norms.cross[0, 0, 1] = 0
    shares = norms.row_shares()
    for kind, share in zip(norms, shares, strict=True):
        assert_exact(share * kind.sum(-1, keepdim=True), kind)
    sums = torch.ones(shares.cross.shape[:-1], dtype=torch.float64)
    sums[0, 0, 1] = 0
    assert_exact(shares.cross.sum(-1), sums)


def test_norm_weights_by_hand() -> None:
    """Two heads of width 1 on a model of width 2: f_0(x) = 3 v_0 (1, 0) and f_1(x) = v_1 (3, 4)."""
    attention = MultiHeadAttention(2, 2)
    with torch.no_grad():
        attention.output.weight.copy_(torch.tensor([[3.0, 3.0], [0.0, 4.0]]))
    value = torch.tensor([[[[1.0], [-2.0]], [[0.5], [1.0]]]])
    norms = head_vectors(attention, value).norm(dim=-1)
    torch.testing.assert_close(norms, torch.tensor([[[3.0, 6.0], [2.5, 5.0]]]))


def test_shapes_and_forbidden_cells_of_norm_weights() -> None:
    found = norm_weights(random_model(), SOURCE, READ)
    assert found.encoder.shape == (2, 3, 6, 6)
    assert found.decoder.shape == (4, 3, 5, 5)
    assert found.cross.shape == (4, 3, 5, 6)
    assert bool((found.decoder[..., ~causal_mask(5, 5)] == 0).all())
    assert not found.cross.requires_grad


def test_norm_weights_in_train_mode_are_those_of_eval_mode() -> None:
    model = random_model(dropout=0.5)
    expected = norm_weights(model, SOURCE, READ)
    model.train()
    found = norm_weights(model, SOURCE, READ)
    for mine, other in zip(found, expected, strict=True):
        assert mine.equal(other)
    assert all(module.training for module in model.modules())


def random_weights(*shape: int) -> Tensor:
    return (2 * random_numbers(*shape)).softmax(-1)


def causal_weights(*shape: int) -> Tensor:
    weights = random_weights(*shape) * causal_mask(*shape[-2:])
    return weights / weights.sum(-1, keepdim=True)


def test_rollout_by_hand() -> None:
    """Heads average to [[0, 1], [0.5, 0.5]], so A' = [[0.5, 0.5], [0.25, 0.75]] in both layers."""
    one, other = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([[0.0, 1.0], [0.0, 1.0]])
    encoder = torch.stack((one, other))[None].repeat(2, 1, 1, 1)
    decoder, cross = torch.ones(1, 2, 1, 1), torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]]]])
    found = rollout(encoder, decoder, cross)
    first = torch.tensor([[0.5, 0.5], [0.25, 0.75]])
    second = torch.tensor([[0.375, 0.625], [0.3125, 0.6875]])
    torch.testing.assert_close(found.encoder, torch.stack((first, second)))
    # Half of <s> stays itself; the other half is the mean of the encoder's two rows.
    torch.testing.assert_close(found.decoder, torch.tensor([[[0.5]]]))
    torch.testing.assert_close(found.cross, 0.5 * second.mean(0)[None, None])


def test_layers_multiply_from_the_left() -> None:
    encoder = random_weights(3, 2, 5, 5)
    first, second, third = 0.5 * encoder.mean(1) + 0.5 * torch.eye(5)
    found = rollout(encoder, causal_weights(1, 2, 4, 4), random_weights(1, 2, 4, 5)).encoder
    torch.testing.assert_close(found[0], first)
    torch.testing.assert_close(found[2], third @ second @ first)


def test_decoder_rollout_is_one_product_over_source_and_prefix() -> None:
    """The same as rolling out one square matrix of both blocks, the source standing still."""
    encoder, decoder, cross = (
        random_weights(2, 3, 5, 5),
        causal_weights(3, 3, 4, 4),
        random_weights(3, 3, 4, 5),
    )
    found = rollout(encoder, decoder, cross)
    state = torch.block_diag(found.encoder[-1], torch.eye(4))
    for layer in range(3):
        own = torch.block_diag(torch.eye(5), 0.5 * decoder[layer].mean(0) + 0.5 * torch.eye(4))
        across = torch.eye(9)
        across[5:, 5:] *= 0.5
        across[5:, :5] = 0.5 * cross[layer].mean(0)
        state = across @ own @ state
        torch.testing.assert_close(found.cross[layer], state[5:, :5])
        torch.testing.assert_close(found.decoder[layer], state[5:, 5:])


def test_rows_of_a_rollout_sum_to_one_and_nothing_looks_ahead() -> None:
    model = random_model()
    with torch.no_grad():
        encoded = model.encode(SOURCE[None], explicit=True)
        decoded = model.decode(READ[None], encoded, explicit=True)
    found = rollout(encoded.weights[0], decoded.self_weights[0], decoded.cross_weights[0])
    torch.testing.assert_close(found.encoder.sum(-1), torch.ones(2, 6))
    torch.testing.assert_close(found.decoder.sum(-1) + found.cross.sum(-1), torch.ones(4, 5))
    assert bool((found.decoder[:, ~causal_mask(5, 5)] == 0).all())
    assert bool((found.cross > 0).all())
