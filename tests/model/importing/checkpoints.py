"""MarianMT checkpoints of random weights, and SentencePiece models that are trained in a moment."""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from transformers import MarianConfig, MarianMTModel, MarianTokenizer

from model.importing.files.spm import read_spm
from model.text.sentencepiece import SentencePiece

GERMAN = (
    "der die das ein eine kleiner großer Hund Katze Jürgen läuft schläft springt durch über unter den "
    "dem Schnee Tür Straße Äpfel kosten zwei Euro heute morgen nicht sehr schnell langsam und oder "
    "aber weil er sie es wir ihr hat haben ist sind war waren Übungsaufgaben Donaudampfschifffahrt "
    "öffnen schließen grün blau"
)
ENGLISH = (
    "the a an this that little big dog cat George runs sleeps jumps through over under snow door "
    "street apples cost two euros today tomorrow isn't don't very quickly slowly and or but because "
    "he she it we you has have is are was were exercises steamboat shipping open close green blue "
    "naïve café"
)
MARKS = (".", "!", "?", "…", ";", " – 2,50 €.", ' "so".', " (1984)")


def sentences(words: str, count: int, seed: int = 0) -> list[str]:
    """Sentences of random words with capitals, commas, numbers and marks."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        chosen = draw.choices(words.split(), k=draw.randint(2, 14))
        if draw.random() < 0.3:
            chosen[draw.randrange(len(chosen))] += ","
        if draw.random() < 0.2:
            chosen.insert(draw.randrange(len(chosen)), str(draw.randint(0, 9999)))
        text = " ".join(chosen) + draw.choice(MARKS)
        found.append(text[0].upper() + text[1:])
    return found


@lru_cache
def spm(language: str, kind: str = "unigram", rule: str = "nmt_nfkc", bytes_: bool = False) -> bytes:
    """A SentencePiece model file of one language."""
    lines = sentences(GERMAN if language == "de" else ENGLISH, 800)
    return trained(tuple(lines), kind, rule, 180, bytes_=bytes_)


def trained(
    lines: tuple[str, ...], kind: str, rule: str, size: int, bytes_: bool = False, **options: Any
) -> bytes:
    """A SentencePiece model file of these lines."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=size + 256 * bytes_,
        model_type=kind,
        normalization_rule_name=rule,
        byte_fallback=bytes_,
        hard_vocab_limit=False,
        num_threads=1,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def segmenter(model: bytes) -> SentencePiece:
    """Ours, of a model file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "source.spm"
        path.write_bytes(model)
        return read_spm(path).segmenter


def pieces(model: bytes) -> list[str]:
    """The pieces of a model file except its control symbols."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [
        processor.id_to_piece(index)
        for index in range(processor.vocab_size())
        if not processor.is_control(index) and not processor.is_unknown(index)
    ]


def vocabulary(entries: list[str]) -> dict[str, int]:
    """Ids as in OPUS-MT: </s>, <unk>, the entries, and <pad> last."""
    unique = dict.fromkeys(["</s>", "<unk>", *entries, "<pad>"])
    return {entry: index for index, entry in enumerate(unique)}


def write_tokenizer(
    directory: Path,
    source: bytes,
    target: bytes,
    *,
    codes: tuple[str, ...] = (),
    separate: bool = False,
    filler: int = 0,
) -> tuple[int, int]:
    """The files of a MarianTokenizer; the sizes of its vocabularies. `filler` adds unused entries."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "source.spm").write_bytes(source)
    (directory / "target.spm").write_bytes(target)
    extra = [f"▁filler{index}" for index in range(filler)]
    settings: dict[str, Any] = {"source_lang": "de", "target_lang": "en", "separate_vocabs": separate}
    if separate:
        found = [vocabulary([*codes, *pieces(source)]), vocabulary(pieces(target))]
        settings["target_vocab_file"] = str(directory / "target_vocab.json")
        (directory / "target_vocab.json").write_text(json.dumps(found[1]))
    else:
        found = [vocabulary([*codes, *pieces(source), *pieces(target), *extra])] * 2
    (directory / "vocab.json").write_text(json.dumps(found[0]))
    (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    return len(found[0]), len(found[1])


def sizes_of(directory: Path) -> tuple[int, int]:
    """The sizes of the vocabularies of a directory."""
    target = directory / "target_vocab.json"
    files = (directory / "vocab.json", target if target.exists() else directory / "vocab.json")
    source, target_size = (len(json.loads(path.read_text())) for path in files)
    return source, target_size


def tokenizer(directory: Path) -> Any:
    """The MarianTokenizer of a directory; special tokens in a text are text, as they are here."""
    return MarianTokenizer.from_pretrained(directory, split_special_tokens=True)


def random_marian(sizes: tuple[int, int], seed: int = 0, spread: float = 1.0, **settings: Any) -> Any:
    """A MarianMTModel with random weights, norms and biases, as the converter of OPUS-MT would leave it."""
    shape: dict[str, Any] = {
        "vocab_size": sizes[0],
        "decoder_vocab_size": sizes[1],
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 3,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 512,
        "pad_token_id": sizes[1] - 1,
        "eos_token_id": 0,
        "forced_eos_token_id": None,
        "decoder_start_token_id": sizes[1] - 1,
        "attn_implementation": "eager",
    }
    torch.manual_seed(seed)
    config = MarianConfig(**(shape | settings))
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        width = config.d_model**-0.5
        for name, parameter in model.named_parameters():
            if "embed_positions" in name:
                continue
            if parameter.ndim == 2:
                parameter.normal_(std=spread * width)
            else:
                parameter.add_(torch.randn_like(parameter), alpha=0.1)
        model.final_logits_bias.normal_(std=0.5)
        for embedding in {model.model.encoder.embed_tokens, model.model.decoder.embed_tokens}:
            embedding.weight[-1] = 0
        model.final_logits_bias[0, -1] = 0
    return model


def translate_by_position(model: Any) -> None:
    """Let random weights of this depth predict several tokens and </s>; else they repeat the first token."""
    with torch.no_grad():
        model.model.shared.weight *= 0.1  # so that positions count more than the token that was read
        model.final_logits_bias *= 0.2
        for name, weight in model.named_parameters():
            if "out_proj" in name or "fc2" in name:
                weight *= 0.5  # so that the layers leave the positions visible
        last = model.model.decoder.layers[-1].final_layer_norm
        for weight in last.parameters():
            weight *= 10  # so that the logits are as large as before


def write_checkpoint(directory: Path, seed: int = 0, **settings: Any) -> Any:
    """A whole checkpoint with small tokenizers; the MarianMTModel of it."""
    separate = settings.pop("separate", False)
    sizes = write_tokenizer(
        directory, spm("de"), spm("en"), codes=settings.pop("codes", ()), separate=separate
    )
    model = random_marian(sizes, seed, **settings)
    model.save_pretrained(directory)
    return model


def write_opus(directory: Path, layers: int = 6, heads: int = 8, **settings: Any) -> Any:
    """A checkpoint of OPUS-MT's size, with 16-bit weights; the MarianMTModel of it."""
    sizes = write_tokenizer(
        directory,
        spm("de"),
        spm("en"),
        codes=settings.pop("codes", ()),
        filler=settings.pop("filler", 57_700),
    )
    shape = {"d_model": 512} | {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", layers), ("ffn_dim", 2048), ("attention_heads", heads))
    }
    model = random_marian(sizes, **(shape | settings))
    model.half().save_pretrained(directory)
    return model


def write_tc_big(directory: Path) -> Any:
    """A checkpoint of the largest OPUS-MT models; the MarianMTModel of it."""
    widths = {"d_model": 1024, "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096}
    return write_opus(directory, heads=16, activation_function="relu", **widths)


def pickle_weights(directory: Path, model: Any) -> None:
    """Turn the weights into a pickle of 32-bit numbers, which most of OPUS-MT's checkpoints are."""
    (directory / "model.safetensors").unlink()
    torch.save(model.float().state_dict(), directory / "pytorch_model.bin")


def timed_import(origin: Path, output: Path) -> tuple[float, float]:
    """Import in a process of its own; the seconds, and the most megabytes that it had in memory."""
    # VmHWM, because ru_maxrss counts the memory of the process that started this one too.
    code = (
        "import sys, time; started = time.perf_counter(); from pathlib import Path; "
        "from model.importing.importer import import_model; import_model(sys.argv[1], Path(sys.argv[2])); "
        "status = Path('/proc/self/status').read_text(); "
        "print(time.perf_counter() - started, status.split('VmHWM:')[1].split()[0])"
    )
    command = [sys.executable, "-c", code, str(origin), str(output)]
    seconds, kilobytes = subprocess.check_output(command, text=True).split()
    return float(seconds), float(kilobytes) * 1024 / 1e6
