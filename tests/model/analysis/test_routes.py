"""Routes: shares that sum to 1, flows that add up along every path, and the head that carries most."""

from __future__ import annotations

import pytest
import torch

from model.analysis.routes import Connection, alti_shares, routes, token_shares
from model.analysis.trace import output_rows, trace
from model.errors import UserError
from tests.model.analysis.random_pairs import SHAPES, model_of, sentence_pair, shapes
from tests.model.helpers import random_model
from tests.numerics import EXACT, assert_exact

pytestmark = pytest.mark.usefixtures("float64")
EVERY = 0.0  # as the least flow: every connection is listed


@shapes
@torch.no_grad()
def test_rows_sum_to_one_and_nothing_looks_ahead(shape):
    model, (source, read, _) = model_of(shape), sentence_pair()
    found = trace(model, source, read)
    for stack in (found.encoder, found.decoder):
        for one in stack.sublayers:
            if one.heads is None:
                continue
            shares = alti_shares(one)
            assert_exact(shares.sum(-1), torch.ones(len(one.x)))
            assert bool((shares >= 0).all())
            if one.kind == "decoder":
                assert bool((shares.triu(1) == 0).all())
    from_source, from_prefix = token_shares(found)
    assert_exact(from_source.sum(-1) + from_prefix.sum(-1), torch.ones(len(read)))
    assert bool((from_prefix.triu(1) == 0).all())


@torch.no_grad()
def test_contributions_are_those_of_the_paper():
    """Equation by equation, one cell at a time."""
    model, (source, read, _) = random_model(), sentence_pair()
    found = trace(model, source, read)
    for kind in ("decoder", "cross"):
        stack, place, heads = found.attention(kind, 1)
        one = stack.sublayers[place]
        write = output_rows(heads.module)
        for row in range(len(read)):
            parts = [
                sum(heads.weights[h, row, key] * (heads.value[h, key] @ write[h]) for h in range(3))
                for key in range(heads.weights.shape[-1])
            ]
            if kind == "cross":
                parts.append(one.x[row])
            else:
                parts[row] = parts[row] + one.x[row]
            y = sum(parts)
            assert_exact(y + heads.module.output.bias, one.x[row] + one.y[row])
            near = torch.stack([(y.abs().sum() - (y - part).abs().sum()).clamp(min=0) for part in parts])
            assert_exact(alti_shares(one)[row], near / near.sum())


@shapes
def test_a_route_has_the_shares_of_its_word(shape):
    model, (source, read, _) = model_of(shape), sentence_pair()
    from_source, from_prefix = token_shares(trace(model, source, read))
    for step in (0, 3):
        found = routes(model, source, read, step, EVERY)
        assert_exact(found.source, from_source[step])
        assert_exact(found.prefix, from_prefix[step])


@pytest.mark.parametrize("shape", ["pre", "post"])
def test_what_flows_into_a_position_flows_out_of_it(shape):
    model, (source, read, _) = model_of(shape), sentence_pair()
    step, [_, n_encoder, n_decoder, *_] = 3, SHAPES[shape]
    found = routes(model, source, read, step, EVERY)

    def flow(kind, layer, **where):
        return sum(
            one.flow
            for one in found.connections
            if (one.kind, one.layer) == (kind, layer)
            and all(getattr(one, name) == value for name, value in where.items())
        )

    assert flow("cross", n_decoder - 1, row=step) == pytest.approx(1, abs=EXACT)
    for layer in range(n_decoder):
        for row in range(len(read)):
            kept = flow("cross", layer, row=row, column=None)
            assert flow("decoder", layer, row=row) == pytest.approx(kept, abs=EXACT)
            if layer > 0:
                arrives = flow("decoder", layer, column=row)
                assert flow("cross", layer - 1, row=row) == pytest.approx(arrives, abs=EXACT)
    for place in range(len(source)):
        read_by_all = sum(flow("cross", layer, column=place) for layer in range(n_decoder))
        assert flow("encoder", n_encoder - 1, row=place) == pytest.approx(read_by_all, abs=EXACT)
        assert flow("encoder", 0, column=place) == pytest.approx(float(found.source[place]), abs=EXACT)


def test_only_connections_that_carry_enough_are_listed():
    model, (source, read, _) = random_model(), sentence_pair()
    every, few = (routes(model, source, read, 3, least).connections for least in (EVERY, 0.04))
    assert few == tuple(one for one in every if one.flow >= 0.04)
    assert 0 < len(few) < len(every)


@torch.no_grad()
def test_the_strongest_head_is_the_one_whose_part_is_nearest():
    model, (source, read, _) = random_model(), sentence_pair()
    found = trace(model, source, read)
    for one in routes(model, source, read, 3, EVERY).connections:
        stack, place, heads = found.attention(one.kind, one.layer)
        sublayer = stack.sublayers[place]
        y = sublayer.x[one.row] + sublayer.y[one.row] - heads.module.output.bias
        assert isinstance(one, Connection)
        if one.column is None:
            assert one.head is None
            continue
        parts = [
            heads.weights[head, one.row, one.column]
            * (heads.value[head, one.column] @ output_rows(heads.module)[head])
            for head in range(3)
        ]
        if one.kind != "cross" and one.row == one.column:
            parts.append(sublayer.x[one.row])
        near = [float((y.abs().sum() - (y - part).abs().sum()).clamp(min=0)) for part in parts]
        assert near[3 if one.head is None else one.head] == max(near)


@shapes
@torch.no_grad()
def test_the_heads_of_a_connection_add_up_to_it(shape):
    """Each part dimension by dimension: its share of what the row loses without the connection."""
    model, (source, read, _) = model_of(shape), sentence_pair()
    traced = trace(model, source, read)
    for one in routes(model, source, read, len(read) - 1, EVERY).connections:
        assert len(one.split) == model.config.n_heads + 1
        assert_exact(torch.tensor(sum(one.split)), torch.tensor(one.flow))
        stack, place, heads = traced.attention(one.kind, one.layer)
        x, write = stack.sublayers[place].x, output_rows(heads.module)
        y = x[one.row] + sum(heads.outputs[head][one.row] @ write[head] for head in range(len(write)))
        parts = [torch.zeros_like(y)] * len(one.split)
        if one.column is not None:
            for head in range(len(write)):
                value, share = heads.value[head, one.column], heads.weights[head, one.row, one.column]
                if heads.kept is not None:
                    share = heads.kept[head, one.row, one.column]
                parts[head] = (share * value) @ write[head]
        if one.column is None or (one.kind != "cross" and one.row == one.column):
            parts[-1] = x[one.row]
        total = sum(parts)
        lost = y.abs() - (y - total).abs()
        if one.flow > 0 and float(lost.sum()) > 1e-6:
            expected = [float((part / total * lost).nan_to_num().sum() / lost.sum()) for part in parts]
            found = torch.tensor(one.split) / one.flow
            torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=1e-6)


def test_a_step_that_does_not_exist_is_refused():
    source, read, _ = sentence_pair()
    with pytest.raises(UserError, match=r"There is no step 5; the last one is 4\."):
        routes(random_model(), source, read, 5)
