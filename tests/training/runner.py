"""Runs CONFIG DATA OUTPUT in a process of its own, for tests that kill it or start several."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import torch

from model.errors import UserError
from tests.training.tiny import REVERSE, SHAPE, run
from training import hardware
from training.run.directory import STATE

KILLED = replace(REVERSE, max_steps=120, validate_every=9, save_every=1)
# Without dropout, whose draws differ from process to process.
SHARED = replace(REVERSE, model=replace(SHAPE, dropout=0.0), accumulate=2, max_steps=60, validate_every=20)
DROPPING = replace(REVERSE, max_steps=30)
CONFIGS = {"killed": KILLED, "shared": SHARED, "dropping": DROPPING, "half": replace(DROPPING, max_steps=13)}


def main() -> None:
    name, data, output = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    hardware.bfloat16_pays = lambda: False
    try:
        run(CONFIGS[name], data, output, resume=(output / STATE).is_file())
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
