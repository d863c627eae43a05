"""A quarter of an hour on a GPU: packs corpora, trains a large model on them there, and joins the result.

    python -m tests.benchmarks.quarter pack de en FOLDER ... corpus.tar.xz
    python -m tests.benchmarks.quarter train everyday-de-en corpus.tar.xz OUT --minutes 12
    python -m tests.benchmarks.quarter join OUT MODEL

`train` measures the speed first, so that the learning rate falls within the minutes. It prints what the model
scores on each development set, and writes it in pieces of at most 16 MiB. The same command goes on where it
was stopped. With `pack --share 0.01` and `--settings` of a small shape it runs on a CPU, to find errors
before the minutes count.
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
    one.add_argument("--settings", nargs=argparse.REMAINDER, default=TEACHER, help="of the recipe; come last")
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


def train(recipe: str, archive: Path, output: Path, minutes: float, settings: list[str]) -> None:
    """Train for the minutes; the measurement of the speed and the evaluation are included."""
    started = time.monotonic()
    data, run, steps = output / "data", output / "run", output / "steps"
    if not data.exists():
        with tarfile.open(archive) as tar:
            tar.extractall(data, filter="data")
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
    return sorted(one for name in ("dev", "val") for one in data.glob(f"*/{name}.{language}"))


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
