import math

import pytest
import torch
from torch import Tensor, nn

from model.errors import UserError
from model.network.attention import MultiHeadAttention
from model.network.layers import (
    DecoderLayer,
    Dropout,
    Embedding,
    EncoderLayer,
    FeedForward,
    Residual,
    norm_of,
    sinusoids,
)
from model.network.masks import causal_mask
from tests.model.helpers import draw_weights, random_numbers, tiny_config
from tests.numerics import assert_exact

pytestmark = pytest.mark.usefixtures("float64")


BATCH, SOURCE, TARGET = 3, 5, 4
PADDING = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 0, 0, 0, 0]]).bool()[:, None, None, :]


# Equal to torch's layers


def copy(theirs: nn.Module, ours: nn.Module) -> None:
    theirs.load_state_dict(ours.state_dict())


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.project.weight)
        theirs.in_proj_bias.copy_(ours.project.bias)
    copy(theirs.out_proj, ours.output)


def torch_layer(kind: type[nn.Module], norm: str) -> nn.Module:
    config = tiny_config()
    layer = kind(
        config.d_model,
        config.n_heads,
        config.d_ff,
        dropout=0.0,
        activation="relu",
        batch_first=True,
        norm_first=norm == "pre",
    )
    return layer.train()  # with dropout 0: in eval mode torch may take another path, with other padding


@pytest.mark.parametrize("explicit", [True, False], ids=["explicit", "fused"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_encoder_layer_equals_torch(norm: str, explicit: bool) -> None:
    ours = EncoderLayer(tiny_config(norm=norm)).eval()
    draw_weights(ours)
    theirs = torch_layer(nn.TransformerEncoderLayer, norm)
    copy_attention(theirs.self_attn, ours.self_attention)
    copy(theirs.norm1, ours.self_residual.norm)
    copy(theirs.norm2, ours.feed_forward_residual.norm)
    copy(theirs.linear1, ours.feed_forward.inner)
    copy(theirs.linear2, ours.feed_forward.outer)
    x = random_numbers(BATCH, SOURCE, 12)
    output = ours(x, PADDING, explicit=explicit).x
    expected = theirs(x, src_key_padding_mask=~PADDING[:, 0, 0])
    assert_exact(output, expected)


@pytest.mark.parametrize("explicit", [True, False], ids=["explicit", "fused"])
@pytest.mark.parametrize("norm", ["pre", "post"])
def test_decoder_layer_equals_torch(norm: str, explicit: bool) -> None:
    ours = DecoderLayer(tiny_config(norm=norm)).eval()
    draw_weights(ours)
    theirs = torch_layer(nn.TransformerDecoderLayer, norm)
    copy_attention(theirs.self_attn, ours.self_attention)
    copy_attention(theirs.multihead_attn, ours.cross_attention)
    copy(theirs.norm1, ours.self_residual.norm)
    copy(theirs.norm2, ours.cross_residual.norm)
    copy(theirs.norm3, ours.feed_forward_residual.norm)
    copy(theirs.linear1, ours.feed_forward.inner)
    copy(theirs.linear2, ours.feed_forward.outer)
    x, source = random_numbers(BATCH, TARGET, 12), random_numbers(BATCH, SOURCE, 12)
    causal = causal_mask(TARGET, TARGET)
    cross_kv = ours.cross_attention.keys_values(source)
    output = ours(x, causal, cross_kv, PADDING, explicit=explicit).x
    expected = theirs(x, source, tgt_mask=~causal, memory_key_padding_mask=~PADDING[:, 0, 0])
    assert_exact(output, expected)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_layers_return_the_keys_and_values_of_their_self_attention(norm: str) -> None:
    encoder, decoder = (
        EncoderLayer(tiny_config(norm=norm)).eval(),
        DecoderLayer(tiny_config(norm=norm)).eval(),
    )
    x, source = random_numbers(BATCH, TARGET, 12), random_numbers(BATCH, SOURCE, 12)
    cross_kv = decoder.cross_attention.keys_values(source)
    outputs = encoder(x, None), decoder(x, causal_mask(TARGET, TARGET), cross_kv, PADDING)
    for layer, output in zip((encoder, decoder), outputs, strict=True):
        expected = layer.self_attention.keys_values(layer.self_residual.pre(x))
        torch.testing.assert_close(output.self_kv, expected)


def test_feed_forward_is_equation_2_at_each_position_alone() -> None:
    block = FeedForward(12, 20)
    x = random_numbers(BATCH, SOURCE, 12)
    hidden = (x @ block.inner.weight.T + block.inner.bias).clamp(min=0)
    expected = hidden @ block.outer.weight.T + block.outer.bias
    torch.testing.assert_close(block(x), expected)
    torch.testing.assert_close(block(x[:, 2:3]), expected[:, 2:3])


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_residual_adds_the_sublayer_and_normalises_on_its_side(norm: str) -> None:
    residual = Residual(tiny_config(norm=norm)).eval()
    draw_weights(residual)
    x, y = random_numbers(2, BATCH, SOURCE, 12)
    normalised = residual.norm
    torch.testing.assert_close(residual.pre(x), normalised(x) if norm == "pre" else x)
    torch.testing.assert_close(residual.post(x, y), x + y if norm == "pre" else normalised(x + y))


# Embedding and positions


@pytest.mark.parametrize("d_model", [2, 12, 64, 256])
@pytest.mark.parametrize("start", [0, 7])
def test_sinusoids_follow_section_3_5(d_model: int, start: int) -> None:
    table = sinusoids(start + 50, d_model)[start:]
    assert table.shape == (50, d_model)
    for row in range(50):
        for i in range(d_model // 2):
            angle = (start + row) / 10000 ** (2 * i / d_model)
            assert float(table[row, 2 * i]) == pytest.approx(math.sin(angle), abs=5e-5)
            assert float(table[row, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=5e-5)


def test_sinusoids_of_fairseq_worked_out_by_hand() -> None:
    """Width 4 has two angles: p and p / 10000, where p is 2 for the first token."""
    first, second = sinusoids(2, 4, "fairseq").tolist()
    assert first == pytest.approx([math.sin(2), math.cos(2), 2e-4, 1.0], abs=1e-6)
    assert second == pytest.approx([math.sin(3), math.cos(3), 3e-4, 1.0], abs=1e-6)


def test_embedding_is_tokens_times_root_of_width_plus_positions() -> None:
    embedding = Embedding(nn.Embedding(13, 16), dropout=0.5).eval()
    tokens = torch.tensor([[4, 4, 9]])
    expected = embedding.tokens.weight[tokens] * 4 + sinusoids(3, 16)
    torch.testing.assert_close(embedding(tokens), expected)


@pytest.mark.parametrize("length", [20, 21, 256, 257, 276, 720])
def test_positions_go_on_beyond_the_first_table(length: int) -> None:
    embedding = Embedding(nn.Embedding(13, 16), dropout=0.0)
    first_table = embedding.positions.clone()
    tokens = torch.randint(13, (2, length))
    positions = embedding(tokens) - embedding.tokens.weight[tokens] * 4
    assert_exact(positions[0], sinusoids(length, 16))
    torch.testing.assert_close(embedding.positions[:256], first_table)


def test_learned_positions_and_the_norm_after_them_worked_out_by_hand() -> None:
    """Width 4: the sum of twice the token and the position is (1, 3, 5, 7), of mean 4 and variance 5."""
    embedding = Embedding(nn.Embedding(2, 4), 0.0, "learned", learned=3, norm=True).double()
    with torch.no_grad():
        embedding.tokens.weight.copy_(torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.5, 1.0, 1.0, 2.0]]))
        embedding.positions.copy_(torch.tensor([[0.0, 1.0, 3.0, 3.0]] * 3))
        embedding.norm.weight.fill_(2.0)
        embedding.norm.bias.fill_(1.0)
        found = embedding(torch.tensor([[1]]))[0, 0]
    wanted = [1 + 2 * each / math.sqrt(5 + 1e-5) for each in (-3, -1, 1, 3)]
    assert_exact(found, torch.tensor(wanted, dtype=torch.float64))
    with pytest.raises(UserError, match="The model knows 3 positions; give a shorter text."):
        embedding(torch.tensor([[1, 1, 1, 1]]))


def test_rms_norm_worked_out_by_hand() -> None:
    """The squares of (1, 3, 5, 7) have the mean 21; nothing is taken off before the division."""
    norm = norm_of(tiny_config(d_model=4, n_heads=1, rms_norm=True))
    with torch.no_grad():
        norm.weight.fill_(2.0)
        found = norm(torch.tensor([1.0, 3.0, 5.0, 7.0]))
    assert_exact(found, torch.tensor([2 * each / math.sqrt(21 + 1e-6) for each in (1, 3, 5, 7)]))


def test_gated_feed_forward_worked_out_by_hand() -> None:
    """relu(x W + b) = (3, 0), times x V + c = (-2, 5), through the sum of both."""
    network = FeedForward(2, 2, "relu", gated=True)
    with torch.no_grad():
        network.inner.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0]]))
        network.inner.bias.copy_(torch.tensor([2.0, -9.0]))
        network.gate.weight.copy_(torch.tensor([[0.0, -1.0], [3.0, 1.0]]))
        network.gate.bias.zero_()
        network.outer.weight.fill_(1.0)
        network.outer.bias.fill_(0.5)
        found = network(torch.tensor([[[1.0, 2.0]]]))
    assert_exact(found, torch.full((1, 1, 2), 3 * -2 + 0.5))


def test_positions_are_no_part_of_the_state() -> None:
    assert set(Embedding(nn.Embedding(13, 16), 0.1).state_dict()) == {"tokens.weight"}


# Dropout


def test_dropout_is_identity_in_eval_mode_and_at_rate_0() -> None:
    x = random_numbers(7, 11)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0).train()(x), x)


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5])
def test_dropout_keeps_rate_and_mean(rate: float) -> None:
    n = 400_003  # no multiple of the four elements that one draw decides
    output = Dropout(rate).train()(torch.ones(n))
    deviation = math.sqrt(rate * (1 - rate) / n)
    for part in (output, output[0::4], output[1::4], output[2::4], output[3::4]):
        bound = 5 * deviation * math.sqrt(n / len(part))
        assert float((part == 0).float().mean()) == pytest.approx(rate, abs=bound)
        assert float(part.mean()) == pytest.approx(1, abs=bound / (1 - rate))
    (scale,) = output[output != 0].unique().tolist()
    assert scale == pytest.approx(1 / (1 - rate), rel=2**-17 / (1 - rate))  # the rate in steps of 2^-16


@pytest.mark.parametrize("distance", [1, 2, 3, 4])
def test_dropout_decides_each_element_on_its_own(distance: int) -> None:
    n, rate = 400_000, 0.3
    dropped = Dropout(rate).train()(torch.ones(n)) == 0
    both = (dropped[:-distance] & dropped[distance:]).float().mean()
    assert float(both) == pytest.approx(rate**2, abs=6 * rate / math.sqrt(n))


def test_dropout_passes_gradients_where_it_passed_values() -> None:
    x = torch.ones(5, 7, 3, requires_grad=True)
    output = Dropout(0.4).train()(x)
    output.sum().backward()
    assert torch.equal(x.grad, output.detach())
    assert 0 < int((output == 0).sum()) < x.numel()


def test_dropout_follows_the_seed() -> None:
    def drawn(seed: int) -> Tensor:
        torch.manual_seed(seed)
        return Dropout(0.5).train()(torch.ones(1000))

    assert torch.equal(drawn(1), drawn(1))
    assert not torch.equal(drawn(1), drawn(2))


def test_dropout_keeps_shape_and_type() -> None:
    for shape in [(), (3,), (2, 3, 5), (2, 0)]:
        for dtype in (torch.float32, torch.bfloat16):
            output = Dropout(0.5).train()(torch.ones(shape, dtype=dtype))
            assert output.shape == shape
            assert output.dtype == dtype
