"""The benchmarks count correctly and compare equal models; no test measures speed."""

import random
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from model.decoding.search import search
from model.network.config import ModelConfig
from model.network.transformer import Transformer
from model.text.tokenizer import EOS_ID, SPECIALS, Tokenizer
from model.translator import Translator
from tests.benchmarks import decoding, race
from tests.benchmarks.alignment import eflomal, separate_marks
from tests.benchmarks.arithmetic import training_flops, translation_flops
from tests.benchmarks.seeds import (
    SEED_000,
    SEEDS_001_004,
    WAY_000,
    WAY_001_004,
    SeedSettings,
    SeedTransformer,
)
from tests.benchmarks.speedrun import linked
from tests.model.helpers import LimitedSearch, tiny_checkpoint
from training.config import TrainConfig
from training.corpus.batching import Batch
from training.loss import SequenceLoss

TINY = ModelConfig(40, 40, d_model=16, d_ff=24, n_heads=2, n_encoder_layers=2, n_decoder_layers=3)
B, S, T = 3, 5, 7


def tokens(rows: int, length: int) -> torch.Tensor:
    return torch.randint(len(SPECIALS), TINY.source_vocabulary, (rows, length))


def parameters(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


@pytest.mark.parametrize(
    "config", [TINY, replace(TINY, norm="post", separate_output=True), replace(TINY, tied=False)]
)
def test_counted_operations_are_those_of_a_training_step(
    config: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("training.loss.compiled_kernels", lambda device: None)  # not seen by the counter
    loss = SequenceLoss(Transformer(config), 0.1)
    # In bfloat16 attention is not fused; the counter does not know the fused one of a CPU.
    with FlopCounterMode(display=False) as counter, torch.autocast("cpu", torch.bfloat16):
        loss(Batch(tokens(B, S), tokens(B, T), tokens(B, T))).translation.backward()
    assert counter.get_total_flops() == training_flops(config, [(S, T)] * B)


@pytest.mark.parametrize(("config", "way"), [(SEED_000, WAY_000), (SEEDS_001_004, WAY_001_004)])
def test_a_seed_has_as_many_parameters_as_ours(config: TrainConfig, way: SeedSettings) -> None:
    shape = replace(config.model, source_vocabulary=8000, target_vocabulary=8000)
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nn.Transformer's, about nested tensors
        ours, theirs = Transformer(shape), SeedTransformer(shape, way)
    assert parameters(theirs) == pytest.approx(parameters(ours), rel=0.01)


def test_hugging_face_has_our_parameters_and_operations() -> None:
    pytest.importorskip("transformers", reason="make bench-training installs transformers")
    from tests.benchmarks.marian import marian

    default = ModelConfig(8000, 8000)
    assert parameters(marian(default)) == pytest.approx(parameters(Transformer(default)), rel=0.01)
    peer = marian(TINY, attention="eager")
    with FlopCounterMode(display=False) as counter:
        peer(input_ids=tokens(1, S), decoder_input_ids=tokens(1, T))
    assert counter.get_total_flops() == translation_flops(TINY, S, T)


def test_ctranslate2_finds_our_translations() -> None:
    pytest.importorskip("ctranslate2", reason="make bench-decoding installs ctranslate2")
    from tests.benchmarks.engine import engine, specification, translate

    words = [first + second for first in "abcdef" for second in "abcdef"]
    tokenizer = Tokenizer.train([" ".join(words)], "word")
    torch.manual_seed(0)
    # With an output projection of its own the random model does more than to repeat what it read.
    model = Transformer(replace(TINY, separate_output=True)).eval()
    with torch.no_grad():
        model.output.weight[: len(SPECIALS)] = 0.0  # never the largest logit
    ids = tokenizer.encode(" ".join(random.Random(0).sample(words, S)))
    ours = search(model, torch.tensor([[*ids, EOS_ID]]), LimitedSearch(max_length=T))[0][0]
    theirs = translate(engine(specification(model, tokenizer), "float32"), [tokenizer.pieces(ids)], T)
    assert theirs == [tokenizer.pieces(ours.ids)]
    assert len(set(ours.ids)) > 1


def test_a_contestant_of_an_unknown_name_is_not_measured_as_greedy_search(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="called 'all heads'"):
        decoding.work_of("all heads", Translator(tiny_checkpoint()))
    previous = tmp_path / "tests" / "benchmarks" / "decoding.py"
    previous.parent.mkdir(parents=True)
    for name in ("Headlight, all heads muted one by one", decoding.ABLATION):
        previous.write_text(f'NAME = "{name}"\n')
        assert decoding.previous_name(tmp_path, decoding.ABLATION) == name
    with pytest.raises(ValueError, match="has no contestant"):
        decoding.previous_name(tmp_path, decoding.SEARCH)


def test_punctuation_is_separated_but_not_inside_words() -> None:
    assert separate_marks(["Ich weiß, dass's (fast) 2,5 EU-Bürger sind…"]) == [
        "Ich weiß , dass's ( fast ) 2 , 5 EU-Bürger sind …"
    ]


def test_eflomal_links_words_that_always_go_together() -> None:
    pytest.importorskip("eflomal", reason="make bench-alignment installs eflomal")
    some = random.Random(0)
    rows = [some.sample("abcdefgh", 4) for _ in range(200)]
    targets = [" ".join(letter * 2 for letter in reversed(row)) for row in rows]
    found = eflomal([" ".join(row) for row in rows], targets, 3)
    assert found.forward == found.backward == found.joined == [{(0, 3), (1, 2), (2, 1), (3, 0)}] * 3


def test_each_column_is_the_choice_of_its_own_side() -> None:
    """No target word has two source words in the first column, no source word two in the second."""
    pytest.importorskip("eflomal", reason="make bench-alignment installs eflomal")
    found = eflomal(["a b", "a", "b"] * 100, ["x x y", "x x", "y"] * 100, 1)
    assert len({target for _, target in found.forward[0]}) == len(found.forward[0])
    assert len({source for source, _ in found.backward[0]}) == len(found.backward[0])


def test_a_race_compares_neighbouring_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(race, "product_rate", lambda dtype: 1e9)
    monkeypatch.setattr(race, "bfloat16_pays", lambda: True)

    def step(seconds: float) -> race.Work:
        clock[0] += seconds
        return race.Work(target_tokens=100, flops=10**8)

    paces = iter([9.0, 1.0, 2.0, 4.0, 1.0])  # seconds of a step of the peer: warm-up, three turns, profile
    race_between = race.Race("peer", lambda: step(0.5), tokens_per_pair=10, turns=3)
    race_between.begin()
    while race_between.after_step(step(next(paces))):
        pass
    assert next(paces, None) is None
    peer, ours, ratio = race_between.table().splitlines()
    assert "5.00 pairs/s" in peer
    assert "20.00 pairs/s" in ours
    assert "200 tokens/s" in ours
    assert "20.0% of bfloat16" in ours
    assert "4.00 x" in ratio


def test_the_speedrun_validates_on_the_last_folder_alone(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        for file in ("train.de", "train.en", "dev.de", "dev.en"):
            (tmp_path / name / file).write_text(f"{name} {file}\n")
    (tmp_path / "links").mkdir()
    found = linked((tmp_path / "one", tmp_path / "two"), tmp_path / "links")
    assert [sorted(file.name for file in folder.iterdir()) for folder in found] == [
        ["train.de", "train.en"],
        ["dev.de", "dev.en", "train.de", "train.en"],
    ]
    assert found[0].name == "one"  # which names its source
    assert (found[0] / "train.de").read_text() == "one train.de\n"
