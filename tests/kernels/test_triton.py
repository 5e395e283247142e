"""The Triton twins of the compiled kernels, without a GPU: in the interpreter, and compiled ahead of time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from support.kernel_cases import CASES

from pyro_options.kernels.registry import DEVICES, KERNELS

pytest.importorskip("triton")
pytest.importorskip("numba")
TESTS = Path(__file__).parents[1]


def run(command):
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}:{TESTS.parent}", "OMP_NUM_THREADS": "1"}
    script = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "support.triton_twins",
        command,
    ]  # of the interpreter's own overflows
    done = subprocess.run(script, cwd=TESTS, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_kernel_has_a_twin_and_cases():
    twins = {path.stem for path in (TESTS.parent / "pyro_options/kernels/cuda").glob("*.py")}
    assert twins - {"__init__", "triton_math"} == set(CASES)
    assert set(CASES) <= set(KERNELS)


def test_twins_agree_with_the_compiled_kernels():
    differences = run("interpret")
    assert {name.split(".")[0] for name in differences} == set(CASES)
    assert not {name: found for name, found in differences.items() if not found < 1e-6}


@pytest.mark.slow
def test_twins_compile_without_stack_or_spills():
    resources = run("compile")
    assert {name.split(".")[0] for name in resources} == set(CASES)
    assert {name.split()[-1] for name in resources} == {"sm_80", "sm_90"}
    spilled = {name: one for name, one in resources.items() if one["STACK"] or one["LOCAL"] or one["REG"] > 254}
    assert not spilled


def test_sizes_beyond_a_program_are_left_to_torch():
    cuda, wide = DEVICES["cuda"], torch.empty(1, 1, 4 * 65)
    assert cuda.has("lstm", (wide[..., :32], torch.empty(32, 8)))
    assert not cuda.has("lstm", (wide, torch.empty(4 * 65, 65)))
    assert cuda.has("chain_marginal", (wide[..., :32],)) and not cuda.has("chain_marginal", (wide[..., :33],))
    assert not cuda.has("nothing", (wide,))


@pytest.mark.cuda
@pytest.mark.parametrize("name", CASES)
def test_twins_agree_on_a_gpu(name):
    def both(call):
        inputs = [x.clone().cuda() for x in call.inputs]
        outputs = [torch.zeros_like(x).cuda() for x in call.outputs]
        DEVICES["cuda"].run(call.kernel, call.function, inputs, outputs, call.settings)
        KERNELS[call.kernel].run(call.function, 1, call.inputs, call.outputs, call.settings)
        for ours, theirs in zip(call.outputs[call.compared], outputs[call.compared]):
            torch.testing.assert_close(theirs.cpu(), ours, atol=1e-5, rtol=1e-5)

    torch.manual_seed(0)
    for _ in CASES[name](both, 3, 40, 5, torch.float32, False):
        pass
