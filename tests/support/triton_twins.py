"""Run in a process of its own, because Triton reads its settings at import.

``python -m support.triton_twins interpret`` prints the largest differences between the compiled kernels and their
twins in Triton's interpreter; ``compile`` the resources of the twins, compiled for two generations of GPUs.
"""

import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["TRITON_DEFAULT_FP_FUSION"] = "1"  # what Triton does by default, without its warning about the next version
if __name__ == "__main__" and sys.argv[1] == "interpret":
    os.environ["TRITON_INTERPRET"] = "1"

import torch

from pyro_options.kernels.registry import KERNELS, TritonKernels
from support.kernel_cases import CASES, SHAPES

TARGETS = (80, 90)

#: options at which twins are compiled: 7, and more where the number of warps depends on it
SIZES = {"chain_marginal": (7, 16, 32)}


def _run(call):
    KERNELS[call.kernel].run(call.function, 1, call.inputs, call.outputs, call.settings)


def _difference(one, other) -> float:
    """Relative to numbers above one, absolute to those below."""
    return max(
        (
            float(((a - b).abs() / (1 + a.abs())).max())
            for a, b in zip(one, other)
            if a.is_floating_point() and a.numel()
        ),
        default=0.0,
    )


def _compare(cases, shape, dtype, extreme):
    """Yields the name of each call and the largest difference."""
    found = []

    def both(call):
        twin = [torch.zeros_like(x) for x in call.outputs]
        inputs = [x.clone() for x in call.inputs]  # some are overwritten
        TritonKernels().run(call.kernel, call.function, inputs, twin, call.settings)
        _run(call)
        one, other = [*call.outputs[call.compared], *call.inputs], [*twin[call.compared], *inputs]
        found.append((call.name, _difference(one, other)))

    torch.manual_seed(sum(shape))
    for _ in cases(both, *shape, dtype, extreme):
        pass
    return found


def interpret():
    """Differences by kernel function, type and whether the numbers are extreme."""
    found: dict[str, float] = {}
    kinds = itertools.product(CASES.values(), SHAPES, (torch.float32, torch.float64), (False, True))
    for cases, shape, dtype, extreme in kinds:
        for name, difference in _compare(cases, shape, dtype, extreme):
            key = f"{name} {str(dtype)[6:]} {'extreme' if extreme else 'usual'}"
            found[key] = max(found.get(key, 0.0), difference)
    return found


def _signature(launch):
    kinds = {torch.float32: "*fp32", torch.float64: "*fp64", torch.int64: "*i64", torch.uint8: "*u8"}
    names = launch.kernel.arg_names[: len(launch.arguments)]
    types = ["i32" if isinstance(x, int) else kinds[x.dtype] for x in launch.arguments]
    return dict(zip(names, types)) | {name: "constexpr" for name in launch.constants}


def _resources(cubin: bytes) -> dict[str, int]:
    """What the GPU's own tool reads off a compiled kernel."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=True).stdout
    return {name: int(count) for name, count in re.findall(r"(REG|STACK|LOCAL):(\d+)", text)}


def compile_all():
    """Registers, stack and local memory of every twin, float32, at the sizes of a training."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    launches = {}

    def collect(call):
        _run(call)
        module = TritonKernels._module(call.kernel)
        launch = getattr(module, f"launch_{call.function}")(call.inputs, call.outputs, call.settings)
        launches[f"{call.name} {call.settings} {launch.constants}"] = launch

    for name, cases in CASES.items():
        for size in SIZES.get(name, (7,)):
            for _ in cases(collect, 2, 300, size, torch.float32, False):
                pass
    found = {}
    for (name, launch), target in itertools.product(launches.items(), TARGETS):
        source = ASTSource(launch.kernel, signature=_signature(launch), constexprs=launch.constants)
        options = {"num_warps": launch.num_warps}
        compiled = triton.compile(source, target=GPUTarget("cuda", target, 32), options=options)
        found[f"{name} sm_{target}"] = _resources(compiled.asm["cubin"])
    return found


if __name__ == "__main__":
    print(json.dumps({"interpret": interpret, "compile": compile_all}[sys.argv[1]]()))
