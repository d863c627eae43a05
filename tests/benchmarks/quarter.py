"""A quarter of an hour on a GPU: packs corpora, trains a large model on them there, and joins the result.

    python -m tests.benchmarks.quarter pack de en FOLDER ... corpus.tar.xz
    python -m tests.benchmarks.quarter train everyday-de-en corpus.tar.xz OUT --minutes 12
    python -m tests.benchmarks.quarter join OUT MODEL
    python -m tests.benchmarks.quarter train everyday-de-en corpus.tar.xz OUT --minutes 12 --teacher MODEL

`train` measures the speed first, so that the learning rate falls within the minutes. It prints what the model
scores on each development set, and writes it in pieces of at most 16 MiB. The same command goes on where it
was stopped. With a teacher, whose model came back from an earlier run, a student of the recipe's own shape is
trained: half of its pairs are references, half are the teacher's translations of the same sentences (Kim and
Rush 2016, section 3.2). With `pack --share 0.01` and `--settings` of a small shape it runs on a CPU, to find
errors before the minutes count.
"""

from __future__ import annotations

import argparse
import io
import json
import shutil
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import torch

from model.decoding.options import SearchOptions
from model.errors import UserError
from model.files import read_lines, write_lines
from model.translator import Translator

PIECE = 16 * 2**20  # bytes
TEACHER = [
    "--config.model.d-model",
    "512",
    "--config.model.d-ff",
    "2048",
    "--config.tokens-per-batch",
    "16384",
]
TEACHER += ["--config.model.n-encoder-layers", "6", "--config.model.n-decoder-layers", "6"]
PREFIX = "model.part"
PROBE, TRAINING = (
    0.05,
    0.8,
)  # of the minutes: for the speed and the training; the rest is for start and scores
NEVER = 10**6  # steps
DEVELOPMENT, TAUGHT = ("dev", "val"), "-taught"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("pack")
    one.add_argument("languages", nargs=2)
    one.add_argument("folders", nargs="+", type=Path)
    one.add_argument("archive", type=Path)
    one.add_argument("--share", type=float, default=1.0, help="of the lines of each file")
    one.set_defaults(run=pack)
    one = commands.add_parser("train")
    one.add_argument("recipe")
    one.add_argument("archive", type=Path)
    one.add_argument("output", type=Path)
    one.add_argument("--minutes", type=float, required=True)
    one.add_argument("--teacher", type=Path, help="its translations are learned too")
    one.add_argument("--settings", nargs=argparse.REMAINDER, help="of the recipe; come last")
    one.set_defaults(run=train)
    one = commands.add_parser("join")
    one.add_argument("pieces", type=Path)
    one.add_argument("model", type=Path)
    one.set_defaults(run=join)
    given = vars(parser.parse_args())
    given.pop("run")(**given)


def pack(languages: list[str], folders: list[Path], archive: Path, share: float) -> None:
    """Compress the parallel files of two languages, each folder under its name."""
    with tarfile.open(archive, "w:xz", preset=9) as tar:
        for folder in folders:
            for file in sorted(folder.iterdir()):
                if file.suffix[1:] in languages and all(
                    file.with_suffix(f".{one}").exists() for one in languages
                ):
                    lines = file.read_bytes().removesuffix(b"\n").split(b"\n")
                    kept = archive.with_suffix(".part")
                    kept.write_bytes(b"\n".join(lines[: max(1, int(share * len(lines)))]) + b"\n")
                    tar.add(kept, f"{folder.name}/{file.name}")
                    kept.unlink()
    print(f"{archive}: {archive.stat().st_size / 2**20:.1f} MiB")


def train(
    recipe: str, archive: Path, output: Path, minutes: float, teacher: Path | None, settings: list[str] | None
) -> None:
    """Train for the minutes; the measurement of the speed and the evaluation are included."""
    started = time.monotonic()
    if settings is None:
        settings = [] if teacher else TEACHER
    data, run, steps = output / "data", output / "run", output / "steps"
    if not data.exists():
        with tarfile.open(archive) as tar:
            tar.extractall(data, filter="data")
    if teacher:
        translate(Translator.load(teacher), data)
        print(f"translated by the teacher after {(time.monotonic() - started) / 60:.1f} minutes", flush=True)
    command = ["train", "--data", *sorted(map(str, data.iterdir()))]

    def learn(directory: Path, share: float, n_steps: int, *options: str) -> None:
        given = ["--output", str(directory), "--minutes", f"{share * minutes:.2f}", *options]
        training(*command, *given, recipe, "--config.max-steps", str(n_steps), *settings)

    if not steps.exists():
        learn(output / "probe", PROBE, NEVER)
        rate = steps_per_minute(output / "probe")
        shutil.rmtree(output / "probe")
        steps.write_text(str(max(1, int(rate * TRAINING * minutes))))
    learn(run, TRAINING, int(steps.read_text()), *(["--resume"] if run.exists() else []))
    scores = {f"{one.parent.name}/{one.stem}": score(run / "best", one) for one in development(run, data)}
    (output / "scores.json").write_text(json.dumps(scores, indent=1))
    split(run / "best", output)
    print(f"{(time.monotonic() - started) / 60:.1f} minutes", json.dumps(scores), sep="\n")


def translate(teacher: Translator, data: Path) -> None:
    """Write the teacher's translations of what is trained on, each folder's beside it; once."""
    teacher.checkpoint.model.to("cuda" if torch.cuda.is_available() else "cpu")
    info = teacher.checkpoint.info
    for source in sorted(data.glob(f"*/*.{info.source_language}")):
        taught = source.parent.with_name(source.parent.name + TAUGHT)
        if source.stem in DEVELOPMENT or source.parent.name.endswith(TAUGHT):
            continue
        if (taught / source.name).exists():
            continue
        taught.mkdir(exist_ok=True)
        lines = list(read_lines(source))
        found = [""] * len(lines)
        for place, result in teacher.translate_lines(lines, SearchOptions()):
            if not isinstance(result, UserError) and result:
                found[place] = result[0].text
        pairs = [(line, text) for line, text in zip(lines, found, strict=True) if text]
        for language, side in ((info.source_language, 0), (info.target_language, 1)):
            write_lines(taught / f"{source.stem}.{language}", (pair[side] for pair in pairs))


def training(*arguments: str) -> str:
    """Run a command of the training module, and return what it prints."""
    command = [sys.executable, "-m", "training", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def steps_per_minute(run: Path) -> float:
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    return float(last["step"] / last["minutes"])


def development(run: Path, data: Path) -> list[Path]:
    """The source files of the development sets."""
    language = json.loads((run / "run.json").read_text())["config"]["source_language"]
    return sorted(one for name in DEVELOPMENT for one in data.glob(f"*/{name}.{language}"))


def score(model: Path, source: Path) -> dict[str, float]:
    target = json.loads((model / "config.json").read_text())["target_language"]
    files = ["--source", str(source), "--reference", str(source.with_suffix(f".{target}"))]
    found = json.loads(training("evaluate", str(model), *files, "--beam", "4", "--json"))
    return {"bleu": found["bleu"], "chrf": found["chrf"]}


def split(model: Path, output: Path) -> None:
    """Write the model with weights in 8 bits, as one archive in pieces."""
    shared = output / "shared"
    shutil.rmtree(shared, ignore_errors=True)
    training("publish", str(model), str(shared))
    for old in output.glob(f"{PREFIX}*"):
        old.unlink()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(shared, ".")
    whole = packed.getvalue()
    for number, start in enumerate(range(0, len(whole), PIECE)):
        (output / f"{PREFIX}{number:02}").write_bytes(whole[start : start + PIECE])


def join(pieces: Path, model: Path) -> None:
    """Make the model directory again from its pieces."""
    whole = b"".join(piece.read_bytes() for piece in sorted(pieces.glob(f"{PREFIX}*")))
    with tarfile.open(fileobj=io.BytesIO(whole)) as tar:
        tar.extractall(model, filter="data")


if __name__ == "__main__":
    main()
