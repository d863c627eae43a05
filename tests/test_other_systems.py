"""Windows, as far as it can be simulated here: modules, signals and calls of Unix are missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.training.tiny import parallel_files, sentences

ROOT = Path(__file__).resolve().parents[1]
# What Windows lacks. Libraries that choose by the system's name still see Linux: sacrebleu is imported first,
# the others when the modules fcntl and resource are missing, and before signals and calls are.
WITHOUT_UNIX = """
import os, signal, subprocess, sys
import sacrebleu
sys.modules["fcntl"] = sys.modules["resource"] = None
import accelerate, datasets, torch, torch.utils.tensorboard, gradio, uvicorn
subprocess.Popen.kill = subprocess.Popen.terminate  # as there; here it would look for SIGKILL
for name in ("termios", "pwd", "grp", "pty", "tty", "syslog"):
    sys.modules[name] = None
for name in ("SIGHUP", "SIGKILL", "SIGALRM", "SIGUSR1", "SIGPIPE", "pthread_sigmask"):
    if hasattr(signal, name): delattr(signal, name)
for name in ("fork", "getuid", "geteuid", "sched_getaffinity", "sysconf", "getloadavg", "killpg", "mkfifo"):
    if hasattr(os, name): delattr(os, name)
"""


def test_sentences_are_translated_and_models_trained_without_unix(tmp_path: Path) -> None:
    """In one process, because importing everything takes seconds."""
    data = parallel_files(tmp_path / "data", sentences(60))
    code = """
import app, runpy
from pathlib import Path
from tests.training.tiny import PARALLEL
from training.run.directory import locked
from training.trainer import Trainer
_, view, data, output = sys.argv
sys.argv = ["model", "translate", "--model", "reverse", "headlight"]
runpy.run_module("model", run_name="__main__")
sys.argv = ["viz", "export", "--model", "reverse", "--output", view, "headlight"]
runpy.run_module("viz", run_name="__main__")
with locked(Path(output)):
    trainer = Trainer(PARALLEL, (Path(data),), Path(output))
    trainer.prepare()
    print(trainer.run())
"""
    view = tmp_path / "missing" / "view.html"
    command = [sys.executable, "-c", WITHOUT_UNIX + code, view, data, tmp_path / "run"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split()[:1] == ["thgildaeh"]
    assert view.is_file()
    assert (tmp_path / "run" / "best" / "model.safetensors").is_file()
