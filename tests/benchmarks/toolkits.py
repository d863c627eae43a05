"""Writes tests/model/importing/toolkits.json, what the toolkits' own code computes: `make toolkits`.

Each toolkit is installed alone, without what it depends on, into a folder; what only plots, measures or runs
on a GPU is replaced by mocks. The weights are drawn as `drawn` of the test does.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tarfile
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import torch
import tyro
from torch import nn

ROOT = Path(__file__).parents[2]
RECORD = ROOT / "tests/model/importing/toolkits.json"
FOLDER = ROOT / "dist/toolkits"
VERSIONS = {
    "joeynmt": "2.3.0",
    "OpenNMT-py": "3.5.1",
    "eole": "0.6.4",
    "fairseq-fixed": "0.12.3.1",  # source alone: its extensions are not built
}
NEEDED = (
    *("configargparse", "pyonmttok", "importlib_metadata<8", "zipp", "portalocker", "colorama", "tabulate"),
    *("regex", "click", "joblib", "hydra-core==1.3.2", "omegaconf==2.3.0", "antlr4-python3-runtime==4.9.3"),
    *("bitarray", "rapidfuzz", "pyahocorasick", "cython", "waitress", "flask", "sacremoses", "subword-nmt"),
)
MOCKED = (
    *("matplotlib", "matplotlib.pyplot", "matplotlib.backends", "matplotlib.backends.backend_pdf"),
    *("matplotlib.ticker", "matplotlib.figure", "seaborn", "ctranslate2", "spacy", "fasttext", "apex"),
    *("flash_attn", "torchcodec", "torchvision", "sklearn", "sklearn.metrics", "scipy", "scipy.stats"),
    *("scipy.special", "scipy.optimize", "fairseq.libbleu", "fairseq.data.data_utils_fast"),
    "fairseq.data.token_block_utils_fast",
)
D, FF, HEADS, LAYERS = 16, 32, 4, 2
SOURCE, TARGET = list("abcdefgh"), list("abcdefghij")
OPEN = ["<unk>", "<blank>", "<s>", "</s>"]  # of OpenNMT-py and eole
READ, WRITTEN = list("bcfa"), list("def")  # the pair that is scored
OPENNMT = (
    *("encoder_type", "decoder_type", "position_encoding", "position_encoding_type", "heads", "layers"),
    *("enc_layers", "dec_layers", "hidden_size", "transformer_ff", "pos_ffn_activation_fn"),
    *("max_relative_positions", "add_qkvbias", "num_kv", "parallel_residual", "layer_norm", "copy_attn"),
    *("self_attn_type", "share_embeddings", "share_decoder_embeddings", "num_experts"),
)
FAIRSEQ = (
    *("encoder_embed_dim", "encoder_attention_heads", "decoder_attention_heads", "encoder_normalize_before"),
    *("decoder_normalize_before", "encoder_learned_pos", "decoder_learned_pos", "layernorm_embedding"),
    *("no_scale_embedding", "activation_fn", "adaptive_input", "adaptive_softmax_cutoff"),
    *("no_cross_attention", "cross_self_attention", "no_token_positional_embeddings"),
    *("share_decoder_input_output_embed", "source_lang", "target_lang"),
)
EOLE = (
    *("encoder_type", "decoder_type", "layers", "heads", "heads_kv", "head_dim", "mlp_activation_fn"),
    *("layer_norm", "parallel_residual", "ffn_layernorm", "query_norm", "key_norm", "encoder_layer_style"),
    "num_experts",
)
Recorded = tuple[str, dict[str, Any]]


def install() -> None:
    """Put the toolkits and what they need into a folder, if they are not there."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(FOLDER)]
    if not FOLDER.exists():
        wheels = [f"{name}=={version}" for name, version in VERSIONS.items() if name != "fairseq-fixed"]
        subprocess.run([*pip, *wheels, *NEEDED], check=True)
        fairseq = f"fairseq-fixed=={VERSIONS['fairseq-fixed']}"
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-build-isolation"]
        subprocess.run([*fetch, "--no-binary", ":all:", fairseq, "--dest", str(FOLDER)], check=False)
        for archive in FOLDER.glob("fairseq*.tar.gz"):
            with tarfile.open(archive) as opened:
                opened.extractall(FOLDER, filter="data")
    sys.path[:0] = [*map(str, FOLDER.glob("fairseq*-*/")), str(FOLDER)]
    importlib.import_module("torch._dynamo")  # looks for some of these itself
    for name in MOCKED:
        mock = MagicMock()
        mock.__spec__ = None
        sys.modules.setdefault(name, mock)
    torch.cuda.get_device_capability = lambda *_: (0, 0)  # OpenNMT-py asks without a GPU too


def fill(model: nn.Module) -> tuple[dict[str, list[int]], dict[str, str]]:
    """Draw the weights; return the shapes of those that differ, and the equal of each other one."""
    parameters = dict(sorted(model.named_parameters(remove_duplicate=False)))
    firsts: dict[int, str] = {}
    tied = {}
    for name, one in parameters.items():
        if firsts.setdefault(id(one), name) != name:
            tied[name] = firsts[id(one)]
    shapes = {name: list(one.shape) for name, one in parameters.items() if name not in tied}
    for place, name in enumerate(shapes):
        values = (torch.arange(parameters[name].numel()) * 7919 + place * 104729) % 1009 - 504
        with torch.no_grad():
            parameters[name].copy_((values / 1009).reshape(shapes[name]) * 0.9)
    return shapes, tied


def record(by: str, model: nn.Module, settings: dict[str, Any], score: Callable[[], Any]) -> dict[str, Any]:
    """What the test needs of a model: `score` gives its logits."""
    shapes, tied = fill(model.eval())
    with torch.no_grad():
        logits = score()
    buffers = sorted(set(model.state_dict()) - set(shapes) - set(tied))
    return {
        "by": by,
        "weights": shapes,
        "tied": tied,
        "buffers": buffers,
        "settings": settings,
        "source": READ,
        "target": WRITTEN,
        "logits": [[float(f"{value:.7g}") for value in row] for row in logits[0].tolist()],
    }


def ids_of(words: Sequence[str], chosen: Sequence[str]) -> list[int]:
    return [words.index(word) for word in chosen]


def joeynmt() -> Iterator[Recorded]:
    build = importlib.import_module("joeynmt.model").build_model
    vocabulary = importlib.import_module("joeynmt.vocabulary").Vocabulary
    names = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
    symbols = SimpleNamespace(sep_token=None, sep_id=None, lang_tags=[])
    for place, (name, token) in enumerate(names.items()):
        setattr(symbols, f"{name}_token", token)
        setattr(symbols, f"{name}_id", place)
    source, target = vocabulary(SOURCE, symbols), vocabulary(TARGET, symbols)
    for name, norm, scale in (("pre", "pre", True), ("post", "post", True), ("none", None, False)):
        side: dict[str, Any] = {"type": "transformer", "num_layers": LAYERS, "num_heads": HEADS}
        side |= {"embeddings": {"embedding_dim": D, "scale": scale}, "hidden_size": D, "ff_size": FF}
        side |= {"dropout": 0.0} | ({"layer_norm": norm} if norm else {})
        settings = {"tied_embeddings": False, "tied_softmax": True, "encoder": side, "decoder": dict(side)}
        model = build(settings, source, target)
        read = torch.tensor([[*ids_of(source._itos, READ), 3]])
        begun = torch.tensor([[2, *ids_of(target._itos, WRITTEN)]])
        masks = torch.ones(1, 1, read.shape[1]).bool(), torch.ones(1, 1, begun.shape[1]).bool()

        def score(model: Any = model, read: Any = read, begun: Any = begun, masks: Any = masks) -> Any:
            encoded, _ = model._encode(read, torch.tensor([read.shape[1]]), masks[0])
            return model._decode(
                encoder_output=encoded,
                encoder_hidden=None,
                src_mask=masks[0],
                trg_input=begun,
                unroll_steps=None,
                decoder_hidden=None,
                trg_mask=masks[1],
            )[0]

        yield f"joeynmt-{name}", record("JoeyNMT 2.3.0", model, {"model": settings}, score)


def opennmt() -> Iterator[Recorded]:
    options = importlib.import_module("onmt.opts")
    parser_of = importlib.import_module("onmt.utils.parse").ArgumentParser
    build = importlib.import_module("onmt.model_builder").build_base_model
    to_vocabularies = importlib.import_module("onmt.inputters.inputter").dict_to_vocabs
    words = {"data_task": "seq2seq", "src": OPEN + SOURCE, "tgt": OPEN + TARGET, "decoder_start_token": "<s>"}
    for name, positions, shared in (("a", "SinusoidalInterleaved", False), ("b", "SinusoidalConcat", True)):
        parser = parser_of()
        options.model_opts(parser)
        given = (
            f"-encoder_type transformer -decoder_type transformer -position_encoding -enc_layers {LAYERS} "
        )
        given += (
            f"-dec_layers {LAYERS} -heads {HEADS} -hidden_size {D} -word_vec_size {D} -transformer_ff {FF} "
        )
        given += f"-position_encoding_type {positions}"
        given += " -share_decoder_embeddings -add_qkvbias" if shared else ""
        found = parser.parse_args(given.split())
        training = {
            "optim": "adam",
            "update_vocab": False,
            "world_size": 1,
            "gpu_ranks": [],
            "quant_layers": [],
        }
        training |= {"pre_word_vecs_enc": None, "pre_word_vecs_dec": None, "freeze_encoder": False}
        training |= {"freeze_decoder": False, "dropout": [0.0], "attention_dropout": [0.0], "lora_layers": []}
        training |= {"lora_embedding": False, "use_ckpting": [], "parallel_mode": "none", "param_init": 0.0}
        training |= {"freeze_word_vecs_enc": False, "freeze_word_vecs_dec": False, "param_init_glorot": True}
        vars(found).update(training | {"self_attn_type": "scaled-dot"})
        parser_of.update_model_opts(found)
        model = build(found, to_vocabularies(words))
        read, begun = ids_of(OPEN + SOURCE, READ), [2, *ids_of(OPEN + TARGET, WRITTEN), 0]

        def score(model: Any = model, read: Any = read, begun: Any = begun) -> Any:
            pair = (torch.tensor([each]).unsqueeze(2) for each in (read, begun))  # the last word is not read
            return model.generator(model(*pair, torch.tensor([len(read)]))[0])

        settings = {key: getattr(found, key) for key in OPENNMT if hasattr(found, key)}
        yield f"opennmt-{name}", record("OpenNMT-py 3.5.1", model, settings, score)


def eole() -> Iterator[Recorded]:
    config = importlib.import_module("eole.config.models").TransformerModelConfig
    network = importlib.import_module("eole.models.model").EncoderDecoderModel
    to_vocabularies = importlib.import_module("eole.inputters.inputter").dict_to_vocabs
    named = {"bos_token": "<s>", "pad_token": "<blank>", "eos_token": "</s>", "unk_token": "<unk>"}
    words = {"src": OPEN + SOURCE, "tgt": OPEN + TARGET, "decoder_start_token": "<s>", "specials": named}
    running = SimpleNamespace(dropout=[0.0], attention_dropout=[0.0], parallel_gpu=1, use_ckpting=[])
    vars(running).update(freeze_word_vecs_enc=False, freeze_word_vecs_dec=False, self_attn_backend="pytorch")
    vars(running).update(world_size=1, lora_layers=[], quant_layers=[], fuse_gate=False, fuse_kvq=False)
    vars(running).update(lora_embedding=False, quant_type="", optim="adam")
    for name, positions, shared in (("a", "SinusoidalInterleaved", False), ("b", "SinusoidalConcat", True)):
        sizes = {"src_word_vec_size": D, "tgt_word_vec_size": D, "word_vec_size": D}
        embeddings = sizes | {"position_encoding": True, "position_encoding_type": positions}
        made = config(
            architecture="transformer",
            layers=LAYERS,
            heads=HEADS,
            hidden_size=D,
            transformer_ff=FF,
            share_decoder_embeddings=shared,
            add_qkvbias=shared,
            embeddings=embeddings,
        )
        vocabularies = to_vocabularies(words)
        model = network.build_blocks(made, vocabularies, running_config=running)
        model.share_decoder_embeddings = shared
        model.build_generator(made, running, vocabularies)
        read, begun = ids_of(OPEN + SOURCE, READ), [2, *ids_of(OPEN + TARGET, WRITTEN), 0]

        def score(model: Any = model, read: Any = read, begun: Any = begun) -> Any:
            pair = torch.tensor([read]), torch.tensor([begun])  # the last word is not read
            return model.generator(model(*pair, torch.tensor([len(read)]))[0])

        dumped = made.model_dump(mode="json")
        whole = ("architecture", "layers", "heads", "hidden_size", "transformer_ff", "embeddings")
        sides = {
            side: {key: value for key, value in dumped[side].items() if key in EOLE}
            for side in ("encoder", "decoder")
        }
        settings = {key: dumped[key] for key in (*whole, "share_decoder_embeddings")} | sides
        yield f"eole-{name}", record("eole 0.6.4", model, settings, score)


def fairseq() -> Iterator[Recorded]:
    network = importlib.import_module("fairseq.models.transformer").TransformerModel
    legacy = importlib.import_module("fairseq.models.transformer.transformer_legacy")
    dictionary = importlib.import_module("fairseq.data").Dictionary
    dictionaries = []
    for words in (SOURCE, TARGET):
        made = dictionary()
        for place, word in enumerate(words):
            made.add_symbol(word, 100 - place)
        made.finalize(padding_factor=8)
        dictionaries.append(made)
    source, target = dictionaries
    before: dict[str, Any] = {
        "encoder_normalize_before": True,
        "decoder_normalize_before": True,
        "activation_fn": "gelu",
    }
    learned = {"encoder_learned_pos": True, "decoder_learned_pos": True, "layernorm_embedding": True}
    learned |= {"no_scale_embedding": True, "share_decoder_input_output_embed": True}
    cases: dict[str, dict[str, Any]] = {"post": {}, "pre": before, "learned": learned}
    for name, more in cases.items():
        settings = Namespace(arch="transformer", dropout=0.0, source_lang="de", target_lang="en", **more)
        for side in ("encoder", "decoder"):
            sizes = {"embed_dim": D, "ffn_embed_dim": FF, "layers": LAYERS, "attention_heads": HEADS}
            vars(settings).update({f"{side}_{key}": value for key, value in sizes.items()})
        vars(settings).update(max_source_positions=200, max_target_positions=200)
        legacy.base_architecture(settings)
        task = MagicMock(source_dictionary=source, target_dictionary=target)
        model = network.build_model(settings, task)
        read = [*map(source.index, READ), source.eos()]
        begun = [target.eos(), *map(target.index, WRITTEN)]

        def score(model: Any = model, read: Any = read, begun: Any = begun) -> Any:
            return model(torch.tensor([read]), torch.tensor([len(read)]), torch.tensor([begun]))[0]

        kept = {key: getattr(settings, key) for key in FAIRSEQ if hasattr(settings, key)}
        yield f"fairseq-{name}", record("fairseq 0.12.3.1", model, kept, score)


def main(data: Path | None = None) -> None:
    """Record what the toolkits' own code computes.

    Args:
        data: A folder with train.de and train.en: each toolkit trains a model instead, which is imported.
    """
    if data is not None:
        importlib.import_module("tests.benchmarks.trained_toolkits").main(data)
        return
    install()
    found = dict(one for toolkit in (joeynmt, opennmt, eole, fairseq) for one in toolkit())
    RECORD.write_text(json.dumps(found), "utf-8")
    print(f"{RECORD}: {len(found)} models.")


if __name__ == "__main__":
    tyro.cli(main)
