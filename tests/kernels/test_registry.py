"""The registry of kernels: every compiled module is in it, and every entry is a module that compiles."""

from pathlib import Path

import pytest
import torch

import pyro_options.kernels
from pyro_options.kernels.registry import KERNELS

FOLDER = Path(pyro_options.kernels.__file__).parent
NOT_KERNELS = {"__init__", "registry", "numba_math", "threads"}


def test_every_kernel_is_registered_once():
    assert set(KERNELS) == {path.stem for path in FOLDER.glob("*.py")} - NOT_KERNELS


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_takes_what_it_was_compiled_for(name):
    pytest.importorskip("numba")
    kernel = KERNELS[name]
    assert kernel.module is not None and kernel.thread_work >= 1
    single, double = torch.zeros(1), torch.zeros(1, dtype=torch.float64)
    assert kernel.take(single, single) and kernel.take(double)
    assert not kernel.take(single, double) and not kernel.take(single.half())
    assert not kernel.take(torch.zeros(1, device="meta"))
