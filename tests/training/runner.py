"""One run in a process of its own, for tests that kill it or start several: CONFIG DATA OUTPUT."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import torch

from model.errors import UserError
from tests.training.tiny import REVERSE, SHAPE
from training import hardware
from training.run.directory import STATE
from training.trainer import Trainer

KILLED = replace(REVERSE, max_steps=120, validate_every=9, save_every=1)
# Without dropout, whose draws differ from process to process.
SHARED = replace(REVERSE, model=replace(SHAPE, dropout=0.0), accumulate=2, max_steps=60, validate_every=20)
DROPPING = replace(REVERSE, max_steps=30)
CONFIGS = {
    "killed": KILLED,
    "shared": SHARED,
    "endless": replace(REVERSE, max_steps=10**6, validate_every=10**6),
    "dropping": DROPPING,
    "half": replace(DROPPING, max_steps=13),
}


def main() -> None:
    """Train, or go on where a run was left."""
    name, data, output = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    torch.set_num_threads(1)
    hardware.bfloat16_pays = lambda: False
    try:
        Trainer(CONFIGS[name], [data], output, resume=(output / STATE).is_file()).run()
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
