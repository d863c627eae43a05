"""Lets each toolkit train a model, imports it and compares: `make toolkits ARGS="--data FOLDER"`.

A toolkit trains a small model on a thousand sentence pairs with its own commands and translates a hundred of
them greedily. The imported model must write the same, and attend as the toolkit prints.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
import yaml
from torch import Tensor

from model.files import read_lines
from model.importing.importer import import_model
from model.importing.own_models import Told
from model.translator import Translator
from tests.benchmarks.toolkits import ROOT, VERSIONS

FOLDER = ROOT / "dist/trained-toolkits"
PAIRS, TRANSLATED, STEPS = 1000, 100, 300
WIDTH, INNER, HEADS, LAYERS = 64, 128, 4, 2
FAIRSEQ = f"fairseq-fixed=={VERSIONS['fairseq-fixed']}"
NEEDED = (
    *(
        "wheel",
        "setuptools<81",
        "cython",
        "configargparse",
        "ctranslate2<5",
        "pyonmttok",
        "flask",
        "waitress",
    ),
    *("rapidfuzz", "pyahocorasick", "fasttext-wheel", "tensorboard", "sacrebleu", "portalocker", "colorama"),
    *("tabulate", "lxml", "werkzeug", "itsdangerous", "blinker", "six", "protobuf", "grpcio", "absl-py"),
    *("markdown", "hydra-core==1.3.2", "omegaconf==2.3.0", "antlr4-python3-runtime==4.9.3", "bitarray"),
    *("scikit-learn", "scipy", "joblib", "threadpoolctl"),
)
# What a toolkit imports for other tasks, and what its extensions in C are for, is not installed.
RUN = """
import sys, torch, torch._dynamo
from unittest.mock import MagicMock
for name in ("spacy", "fairseq.libbleu", "aiohttp", "requests", "pandas", "datasets"):
    sys.modules[name] = MagicMock(__file__=torch._C.__file__, __spec__=None)
load = torch.load
torch.load = lambda *a, **more: load(*a, **{**more, "weights_only": False})
module, function = sys.argv[1].split(":")
sys.argv = sys.argv[1:]
getattr(__import__(module, fromlist=[function]), function)()
"""
BUILD = """
import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
names = ("data_utils_fast", "token_block_utils_fast")
made = [Extension(f"fairseq.data.{name}", [f"fairseq/data/{name}.pyx"], language="c++",
                  include_dirs=[numpy.get_include()]) for name in names]
setup(name="fast", packages=[], ext_modules=cythonize(made), script_args=["build_ext", "--inplace"])
"""
ROW = re.compile(r"(?<=\s)\*?(\d\.\d{7})(?!\d)")


@dataclass(frozen=True)
class Trained:
    """What a toolkit left: the path to import, its translations, and the weights that it prints of some."""

    path: Path
    told: Told
    texts: Mapping[int, str]  # by the line of the source
    weights: Mapping[int, Tensor]
    head: int | None  # of the last layer's cross-attention; None: their mean


def python() -> Path:
    return FOLDER / "env" / "bin" / "python"


def install() -> None:
    """Make an environment that has the toolkits beside this project's packages."""
    if FOLDER.exists():
        return
    venv.create(FOLDER / "env", with_pip=True)
    (site,) = (FOLDER / "env").glob("lib/*/site-packages")
    own = next(path for path in sys.path if path.endswith("site-packages"))
    (site / "project.pth").write_text(f"{own}\n")
    pip: list[str | Path] = [python(), "-m", "pip", "--quiet"]
    kits = [f"{name}=={VERSIONS[name]}" for name in ("OpenNMT-py", "eole")]
    subprocess.run([*pip, "install", "--no-deps", *kits, *NEEDED], check=True)
    source = ["--no-deps", "--no-build-isolation", "--no-binary", ":all:", FAIRSEQ]
    subprocess.run([*pip, "download", *source, "--dest", FOLDER], check=True)
    (archive,) = FOLDER.glob("fairseq*.tar.gz")
    subprocess.run(["tar", "--extract", "--file", archive, "--directory", FOLDER], check=True)
    subprocess.run([python(), "-c", BUILD], cwd=fairseq_folder(), check=True)


def fairseq_folder() -> Path:
    return next(FOLDER.glob("fairseq*-*/"))


def call(function: str, *arguments: object, folder: Path) -> str:
    """Run a command of a toolkit, MODULE:FUNCTION; return what it prints."""
    paths = os.pathsep.join(map(str, (fairseq_folder(), ROOT)))
    environment = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    command = [str(python()), "-c", RUN, function, *map(str, arguments)]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    if done.returncode:
        sys.exit(f"{function} failed:\n{done.stderr[-3000:]}")
    return done.stdout + done.stderr


def prepare(data: Path, folder: Path) -> None:
    """Write the pairs with spaces around punctuation, as all toolkits read words."""
    folder.mkdir(parents=True, exist_ok=True)
    for language in ("de", "en"):
        lines = [line for line, _ in zip(read_lines(data / f"train.{language}"), range(PAIRS), strict=False)]
        words = [" ".join(re.sub(r"([.,!?\"'])", r" \1 ", line).split()) for line in lines]
        for name, kept in (("train", words), ("dev", words[:TRANSLATED])):
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in kept))


def blocks(printed: str) -> dict[int, Tensor]:
    """The tables of weights that OpenNMT-py and eole print, one for each sentence."""
    found: list[list[list[float]]] = [[]]
    for line in printed.splitlines():
        row = [] if line.startswith("[") else [float(value) for value in ROW.findall(line)]
        if row:
            found[-1].append(row)
        elif found[-1]:
            found.append([])
    return {place: torch.tensor(rows) for place, rows in enumerate(rows for rows in found if rows)}


def texts(path: Path) -> dict[int, str]:
    return dict(enumerate(read_lines(path)))


COMMON = {
    "src_vocab": "src.vocab",
    "tgt_vocab": "tgt.vocab",
    "overwrite": True,
    "report_every": STEPS,
    "data": {"corpus_1": {"path_src": "train.de", "path_tgt": "train.en"}},
}
TRAINING = {
    "train_steps": STEPS,
    "save_checkpoint_steps": STEPS,
    "valid_steps": 10 * STEPS,
    "world_size": 1,
    "batch_size": 1024,
    "batch_type": "tokens",
    "batch_size_multiple": 1,
    "bucket_size": PAIRS,
    "optim": "adam",
    "adam_beta2": 0.998,
    "decay_method": "noam",
    "warmup_steps": 100,
    "num_workers": 0,
    "learning_rate": 1.0,
    "dropout": [0.0],
    "attention_dropout": [0.0],
    "normalization": "tokens",
}


def opennmt(folder: Path) -> Trained:
    """Train with OpenNMT-py."""
    shape = {"encoder_type": "transformer", "decoder_type": "transformer", "position_encoding": True}
    shape |= {"enc_layers": LAYERS, "dec_layers": LAYERS, "heads": HEADS, "hidden_size": WIDTH}
    shape |= {
        "word_vec_size": WIDTH,
        "transformer_ff": INNER,
        "save_model": "model",
        "param_init_glorot": True,
    }
    settings = {**COMMON, **TRAINING, **shape, "save_data": "."}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    call("onmt.bin.build_vocab:main", "-config", "config.yaml", "-n_sample", PAIRS, folder=folder)
    call("onmt.bin.train:main", "-config", "config.yaml", folder=folder)
    path = folder / f"model_step_{STEPS}.pt"
    asked = ("-model", path.name, "-src", "dev.de", "-output", "out.txt", "-beam_size", 1)
    more = ("-max_length_ratio", 0, "-attn_debug")
    printed = call("onmt.bin.translate:main", *asked, *more, folder=folder)
    return Trained(path, Told(), texts(folder / "out.txt"), blocks(printed), 0)


def eole(folder: Path) -> Trained:
    """Train with eole."""
    embeddings = {"word_vec_size": WIDTH, "position_encoding_type": "SinusoidalInterleaved"}
    shape = {"architecture": "transformer", "layers": LAYERS, "heads": HEADS, "hidden_size": WIDTH}
    model = {**shape, "transformer_ff": INNER, "embeddings": embeddings}
    training = {**TRAINING, "model_path": "model", "compute_dtype": "fp32", "gpu_ranks": []}
    settings = {**COMMON, "share_vocab": False, "save_data": ".", "training": training, "model": model}
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    call("eole.bin.main:main", "build_vocab", "-config", "config.yaml", "-n_sample", PAIRS, folder=folder)
    call("eole.bin.main:main", "train", "-config", "config.yaml", folder=folder)
    asked = {"src": "dev.de", "output": "out.txt", "model_path": ["model"], "beam_size": 1, "gpu_ranks": []}
    asked |= {"max_length_ratio": 0}
    (folder / "asked.yaml").write_text(yaml.safe_dump({**asked, "batch_size": 1, "batch_type": "sents"}))
    printed = call("eole.bin.main:main", "predict", "-config", "asked.yaml", "-attn_debug", folder=folder)
    return Trained(folder / "model", Told(), texts(folder / "out.txt"), blocks(printed), 0)


def fairseq(folder: Path) -> Trained:
    """Train with fairseq."""
    prepared = ("-s", "de", "-t", "en", "--trainpref", "train", "--validpref", "dev", "--destdir", "data")
    call("fairseq_cli.preprocess:cli_main", *prepared, "--workers", 1, folder=folder)
    shape = [
        *("--arch", "transformer_iwslt_de_en", "--max-update", STEPS, "--save-dir", "run", "--cpu"),
        *("--optimizer", "adam", "--lr", 0.003, "--dropout", 0, "--max-tokens", 1024, "--num-workers", 0),
        *("--criterion", "label_smoothed_cross_entropy", "--no-epoch-checkpoints", "--disable-validation"),
    ]
    for side in ("encoder", "decoder"):
        shape += [f"--{side}-layers", LAYERS, f"--{side}-embed-dim", WIDTH]
        shape += [f"--{side}-ffn-embed-dim", INNER, f"--{side}-attention-heads", HEADS]
    call("fairseq_cli.train:cli_main", "data", *shape, folder=folder)
    asked = ("--gen-subset", "valid", "--path", "run/checkpoint_last.pt", "--beam", 1, "--cpu")
    more = ("--print-alignment", "soft", "--scoring", "sacrebleu")
    printed = call("fairseq_cli.generate:cli_main", "data", *asked, *more, folder=folder)
    written, weights = {}, {}
    for line in printed.splitlines():
        name, *values = line.split("\t")
        if match := re.fullmatch(r"([HA])-(\d+)", name):
            if match[1] == "H":
                written[int(match[2])] = values[1]
            else:
                rows = [[float(value) for value in row.split(",")] for row in values[0].split()]
                weights[int(match[2])] = torch.tensor(rows)
    source, target = (folder / "data" / f"dict.{language}.txt" for language in ("de", "en"))
    told = Told(source_vocabulary=source, target_vocabulary=target)
    return Trained(folder / "run", told, written, weights, None)


def compare(trained: Trained, folder: Path) -> Iterator[str]:
    """What is equal between the toolkit and the imported model."""
    import_model(str(trained.path), folder / "imported", 32, trained.told)
    translator = Translator.load(folder / "imported")
    equal, cut, worst, compared = 0, 0, 0.0, 0
    for place, sentence in texts(folder / "dev.de").items():
        if place not in trained.texts:
            continue
        found = translator.translate(sentence)
        theirs = trained.texts[place]
        equal += found.text == theirs
        cut += found.text != theirs and (theirs.startswith(found.text) or found.text.startswith(theirs))
        if found.text == theirs and place in trained.weights:
            cross = found.attention.cross[-1]
            ours = cross.mean(0) if trained.head is None else cross[trained.head]
            printed = trained.weights[place]
            rows, columns = (min(sizes) for sizes in zip(ours.shape, printed.shape, strict=True))
            worst = max(worst, float((ours[:rows, :columns] - printed[:rows, :columns]).abs().max()))
            compared += 1
    yield f"{equal} of {len(trained.texts)} translations are equal"
    if cut:
        yield f"{cut} up to the length at which one of the two stops"
    yield f"the cross-attention of {compared} differs by at most {worst:.1e}"


def main(data: Path) -> None:
    """Train with each toolkit on the first pairs of `data`/train.de and .en, and print what is equal."""
    install()
    for toolkit in (opennmt, eole, fairseq):
        folder = FOLDER / toolkit.__name__
        subprocess.run(["rm", "-rf", folder], check=True)
        prepare(data, folder)
        print(f"{toolkit.__name__}: {', '.join(compare(toolkit(folder), folder))}.", flush=True)
