"""The activations of imported models are torch's."""

from __future__ import annotations

import json
import subprocess

import torch
import torch.nn.functional as F

from tests.viz.node import node
from viz.viewer import HERE as VIEWER

PRINT = """
const {{ ACTIVATIONS }} = await import({module});
const rows = Object.entries(ACTIVATIONS).map(([name, apply]) => [name, {inputs}.map(apply)]);
console.log(JSON.stringify(Object.fromEntries(rows)));
"""


def test_activations_are_those_of_torch():
    x = torch.linspace(-10, 10, 401, dtype=torch.float64)
    script = PRINT.format(module=json.dumps((VIEWER / "engine" / "network.js").as_uri()), inputs=x.tolist())
    command = [node(), "--no-warnings", "--input-type=module", "--eval", script]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    expected = {
        "relu": x.relu(),
        "silu": F.silu(x),
        "gelu": F.gelu(x),
        "gelu_new": F.gelu(x, approximate="tanh"),
    }
    found = {name: torch.tensor(each, dtype=torch.float64) for name, each in json.loads(run.stdout).items()}
    assert found.keys() == expected.keys()
    for name, each in expected.items():
        torch.testing.assert_close(found[name], each, rtol=1e-9, atol=1e-12)
