"""Checkpoints of random weights of other families than MarianMT, with small tokenizers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from tokenizers import ByteLevelBPETokenizer
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    BartTokenizer,
    ByT5Tokenizer,
    FSMTConfig,
    FSMTForConditionalGeneration,
    FSMTTokenizer,
    M2M100Config,
    M2M100ForConditionalGeneration,
    M2M100Tokenizer,
    MBart50Tokenizer,
    MBartConfig,
    MBartForConditionalGeneration,
    MBartTokenizer,
    MT5Config,
    MT5ForConditionalGeneration,
    NllbTokenizer,
    PegasusConfig,
    PegasusForConditionalGeneration,
    PegasusTokenizer,
    T5Config,
    T5ForConditionalGeneration,
    T5Tokenizer,
)

from tests.model.importing.checkpoints import ENGLISH, GERMAN, sentences, trained

SPECIALS = ("<s>", "<pad>", "</s>", "<unk>")  # ids 0 to 3 in models of fairseq
# "ein", "er", "th" and others, inside a word and at its end.
FSMT_MERGES = [
    *(("e", "r</w>"), ("i", "n"), ("t", "h"), ("e", "in"), ("e", "n</w>"), ("th", "e</w>"), ("s", "t")),
    *(("l", "l"), ("ein", "e</w>"), ("c", "h"), ("u", "n"), ("d", "i"), ("di", "e</w>"), ("s", "ch")),
    *(("a", "n"), ("un", "d</w>"), ("o", "s</w>"), ("ap", "os</w>"), ("a", "p"), ("n", "t</w>")),
]


@lru_cache
def spm(kind: str) -> bytes:
    """A SentencePiece model file of both languages."""
    lines = (*sentences(GERMAN, 800), *sentences(ENGLISH, 800))
    return trained(tuple(lines), kind, "nmt_nfkc", 300)


def write_m2m_tokenizer(directory: Path) -> Any:
    """The files of an M2M100Tokenizer; the tokenizer."""
    directory.mkdir(parents=True, exist_ok=True)
    model = directory / "sentencepiece.bpe.model"
    model.write_bytes(spm("bpe"))
    processor = sentencepiece.SentencePieceProcessor(model_proto=spm("bpe"))
    pieces = [processor.id_to_piece(index) for index in range(3, processor.vocab_size())]
    entries = {piece: index for index, piece in enumerate(dict.fromkeys([*SPECIALS, *pieces]))}
    (directory / "vocab.json").write_text(json.dumps(entries))
    tokenizer = M2M100Tokenizer(str(directory / "vocab.json"), str(model), src_lang="de", tgt_lang="en")
    tokenizer.save_pretrained(directory)
    return tokenizer


def write_nllb_tokenizer(directory: Path) -> Any:
    """The files of an NllbTokenizer; the tokenizer."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sentencepiece.bpe.model").write_bytes(spm("bpe"))
    tokenizer = NllbTokenizer.from_pretrained(directory)
    (directory / "sentencepiece.bpe.model").unlink()
    codes = ["deu_Latn", "eng_Latn", "fra_Latn", "zho_Hans"]
    tokenizer.add_special_tokens({"additional_special_tokens": codes})
    tokenizer.src_lang, tokenizer.tgt_lang = "deu_Latn", "eng_Latn"
    tokenizer.save_pretrained(directory)
    return tokenizer


def write_mbart_tokenizer(directory: Path) -> Any:
    """The files of an MBart50Tokenizer; the tokenizer."""
    return _write_mbart(MBart50Tokenizer, directory)


def write_mbart_25_tokenizer(directory: Path) -> Any:
    """The files of an MBartTokenizer; the tokenizer."""
    return _write_mbart(MBartTokenizer, directory)


def _write_mbart(tokenizer_class: Any, directory: Path) -> Any:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sentencepiece.bpe.model").write_bytes(spm("unigram"))
    tokenizer = tokenizer_class.from_pretrained(directory, src_lang="de_DE", tgt_lang="en_XX")
    tokenizer.save_pretrained(directory)
    return tokenizer


def write_bart_tokenizer(directory: Path) -> Any:
    """The files of a BartTokenizer, without tokenizer.json; the tokenizer."""
    directory.mkdir(parents=True, exist_ok=True)
    trained_pairs = ByteLevelBPETokenizer()
    lines = (*sentences(GERMAN, 800), *sentences(ENGLISH, 800))
    specials = [*SPECIALS, "<mask>"]
    trained_pairs.train_from_iterator(lines, vocab_size=500, special_tokens=specials, show_progress=False)
    trained_pairs.save_model(str(directory))
    return BartTokenizer.from_pretrained(directory)


def write_fsmt_tokenizer(directory: Path) -> Any:
    """The files of an FSMTTokenizer; the tokenizer."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, words in (("src", GERMAN), ("tgt", ENGLISH)):
        letters = sorted(set("".join(sentences(words, 800))) - {" "} | set("&#0123456789;aposqut"))
        merges = FSMT_MERGES
        made = [left + right for left, right in merges]
        entries = [*SPECIALS, *letters, *(letter + "</w>" for letter in letters), *made]
        ids = {entry: index for index, entry in enumerate(dict.fromkeys(entries))}
        (directory / f"vocab-{name}.json").write_text(json.dumps(ids))
    lines = "".join(f"{left} {right} {100 - rank}\n" for rank, (left, right) in enumerate(FSMT_MERGES))
    (directory / "merges.txt").write_text(lines)
    files = {
        "src_vocab_file": str(directory / "vocab-src.json"),
        "tgt_vocab_file": str(directory / "vocab-tgt.json"),
        "merges_file": str(directory / "merges.txt"),
    }
    tokenizer = FSMTTokenizer(langs=["de", "en"], **files)
    (directory / "tokenizer_config.json").write_text(json.dumps({"langs": ["de", "en"]}))
    return tokenizer


def random_fsmt(sizes: tuple[int, int], seed: int = 0, **settings: Any) -> Any:
    """An FSMT model with random weights, norms and biases."""
    own = {"src_vocab_size": sizes[0], "tgt_vocab_size": sizes[1], "langs": ["de", "en"]}
    model = _random(FSMTForConditionalGeneration, FSMTConfig, sizes[1], seed, own | settings)
    model.generation_config.forced_eos_token_id = None
    with torch.no_grad():
        for side in (model.model.encoder, model.model.decoder):
            positions = side.embed_positions
            positions.weight.copy_(positions.get_embedding(*positions.weight.shape, positions.padding_idx))
    return model


def write_t5_tokenizer(directory: Path) -> Any:
    """The files of a T5Tokenizer; the tokenizer."""
    return _write_spiece(T5Tokenizer, directory)


def write_pegasus_tokenizer(directory: Path) -> Any:
    """The files of a PegasusTokenizer; the tokenizer."""
    return _write_spiece(PegasusTokenizer, directory)


def _write_spiece(tokenizer_class: Any, directory: Path) -> Any:
    directory.mkdir(parents=True, exist_ok=True)
    ids: dict[str, Any] = {"pad_id": 0, "eos_id": 1, "unk_id": 2, "bos_id": -1}
    lines = (*sentences(GERMAN, 800), *sentences(ENGLISH, 800))
    (directory / "spiece.model").write_bytes(trained(lines, "unigram", "nmt_nfkc", 300, **ids))
    tokenizer = tokenizer_class.from_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return tokenizer


def random_pegasus(size: int, seed: int = 0, **settings: Any) -> Any:
    """A Pegasus model with random weights, norms and biases."""
    model = _random(PegasusForConditionalGeneration, PegasusConfig, size, seed, settings)
    model.generation_config.forced_eos_token_id = None
    with torch.no_grad():
        for side in (model.model.encoder, model.model.decoder):
            side.embed_positions.weight.copy_(side.embed_positions.create_weight())
    return model


def write_byt5_tokenizer(directory: Path) -> Any:
    """The files of a ByT5Tokenizer; the tokenizer."""
    tokenizer = ByT5Tokenizer()
    tokenizer.save_pretrained(directory)
    return tokenizer


def random_t5(size: int, seed: int = 0, **settings: Any) -> Any:
    """A T5 model with random weights and norms; `tie_word_embeddings` tells version 1.0 from 1.1."""
    return _random_t5(T5ForConditionalGeneration, T5Config, size, seed, settings)


def random_mt5(size: int, seed: int = 0, **settings: Any) -> Any:
    """An mT5 model with random weights and norms."""
    return _random_t5(MT5ForConditionalGeneration, MT5Config, size, seed, settings)


def _random_t5(model_class: Any, config_class: Any, size: int, seed: int, settings: Mapping[str, Any]) -> Any:
    shape: dict[str, Any] = {
        "vocab_size": size,
        "d_model": 32,
        "d_kv": 8,
        "d_ff": 48,
        "num_layers": 3,
        "num_decoder_layers": 2,  # not more: the cache of transformers has a place for each encoder layer
        "num_heads": 4,
        "decoder_start_token_id": 0,
        "attn_implementation": "eager",
    }
    torch.manual_seed(seed)
    model = model_class(config_class(**shape | dict(settings))).eval()
    randomise(model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith((".q.weight", "shared.weight")):  # scores and embeddings are not scaled
                parameter *= 0.6 if name.endswith(".q.weight") else model.config.d_model**0.5
            if "relative_attention_bias" in name:
                parameter *= 4
    return model


def random_m2m(size: int, seed: int = 0, **settings: Any) -> Any:
    """An M2M100 model with random weights, norms and biases."""
    return _random(M2M100ForConditionalGeneration, M2M100Config, size, seed, settings)


def random_bart(size: int, seed: int = 0, **settings: Any) -> Any:
    """A BART model with random weights, positions, norms and biases; `forced` is its first token."""
    forced = settings.pop("forced", None)
    own = {"max_position_embeddings": 300, "forced_eos_token_id": None}
    model = _random(BartForConditionalGeneration, BartConfig, size, seed, own | settings)
    model.generation_config.forced_bos_token_id = forced
    return model


def random_mbart(size: int, seed: int = 0, **settings: Any) -> Any:
    """An mBART model with random weights, positions, norms and biases."""
    # By default generation ends each translation at its longest length.
    own = {"decoder_start_token_id": 2, "max_position_embeddings": 300, "forced_eos_token_id": None}
    return _random(MBartForConditionalGeneration, MBartConfig, size, seed, own | settings)


def _random(model_class: Any, config_class: Any, size: int, seed: int, settings: Mapping[str, Any]) -> Any:
    shape: dict[str, Any] = {
        "vocab_size": size,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "attn_implementation": "eager",
    }
    torch.manual_seed(seed)
    model = model_class(config_class(**shape | dict(settings))).eval()
    randomise(model)
    return model


def randomise(model: Any) -> None:
    """Random numbers for every weight, so large that the heads look at different places."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                parameter.normal_(std=model.config.d_model**-0.5)
            else:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)


def write_nllb(directory: Path, size: int, layers: int, width: int) -> None:
    """A checkpoint of NLLB's form in 16 bits; 16 heads a layer."""
    write_nllb_tokenizer(directory)
    config = M2M100Config(vocab_size=size, **_wide(layers, width))
    _write_large(directory, M2M100ForConditionalGeneration, config)


def write_mbart(directory: Path, size: int, layers: int, width: int) -> None:
    """A checkpoint of mBART-50's form in 16 bits; 16 heads a layer."""
    write_mbart_tokenizer(directory)
    config = MBartConfig(
        vocab_size=size, decoder_start_token_id=2, scale_embedding=True, **_wide(layers, width)
    )
    _write_large(directory, MBartForConditionalGeneration, config)


def write_t5(directory: Path, size: int, layers: int, width: int) -> None:
    """A checkpoint of T5's form in 16 bits; heads of width 64."""
    write_t5_tokenizer(directory)
    shape = {"d_ff": 4 * width, "num_layers": layers, "num_heads": width // 64}
    config = T5Config(vocab_size=size, d_model=width, decoder_start_token_id=0, **shape)
    _write_large(directory, T5ForConditionalGeneration, config)


def _wide(layers: int, width: int) -> dict[str, int]:
    inner = {"encoder_ffn_dim": 4 * width, "decoder_ffn_dim": 4 * width}
    return {"d_model": width, "encoder_layers": layers, "decoder_layers": layers} | inner


def _write_large(directory: Path, model_class: Any, config: Any) -> None:
    """Random weights in 16 bits, without ever holding them in 32."""
    with torch.device("meta"):
        model = model_class(config)
    model = model.half().to_empty(device="cpu")
    numbers = (torch.randn(1 << 20) * config.d_model**-0.5).half()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 2:
                for place, part in enumerate(parameter.view(-1).split(len(numbers))):
                    part.copy_(numbers.roll(977 * place)[: len(part)])
            else:
                parameter.fill_(0.5)
        for name, buffer in model.named_buffers():
            if name == "final_logits_bias":
                buffer.zero_()
    model.tie_weights()
    model.save_pretrained(directory)
