"""``pyro-options doctor``: is everything there, and does it work?"""

import importlib.metadata
import os
import platform
import time
from dataclasses import dataclass
from typing import Any

from .command import Command

#: packages to list, and the extra that brings each; ``None`` for those that are always needed
PACKAGES: dict[str, str | None] = {
    "torch": None,
    "pyro-ppl": None,
    "numpy": None,
    "gymnasium": None,
    "stable-baselines3": None,
    "safetensors": None,
    "numba": "fast",
    "narwhals": "tables",
    "pyarrow": "tables",
    "h5py": "robomimic",
    "minari": "minari",
    "pillow": "cli",
    "tyro": "cli",
}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True, kw_only=True)
class Doctor(Command):
    """Check the installation: versions, kernels, CUDA, threads, and a self-test of about ten seconds."""

    EXAMPLES = ("pyro-options doctor",)

    no_self_test: bool = False
    """do not discover two options in tiny data; the first test after an installation compiles kernels"""

    def run(self) -> dict[str, Any]:
        import torch

        import pyro_options
        from pyro_options.kernels.registry import KERNELS

        compiled = {name: kernels.module is not None for name, kernels in KERNELS.items()}
        result: dict[str, Any] = {
            "pyro_options": pyro_options.__version__,
            "python": platform.python_version(),
            "system": platform.platform(),
            "packages": {name: _version(name) for name in PACKAGES},
            "kernels": compiled,
            "cuda": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
            "threads": {"torch": torch.get_num_threads(), "cores": os.cpu_count()},
        }
        result["self_test"] = None if self.no_self_test else self._self_test()
        result["ok"] = result["self_test"] is None or result["self_test"]["ok"]
        return result

    def _self_test(self) -> dict[str, Any]:
        """Discovers two options that were put into small data, saves them, and loads them again."""
        import tempfile
        from pathlib import Path

        import torch

        from pyro_options.data import Trajectories
        from pyro_options.discovery import discover
        from pyro_options.skills import Skills

        self.say("self-test …")
        began = time.perf_counter()
        actions = torch.tensor([[0] * 6 + [1] * 6, [1] * 6 + [0] * 6] * 20)
        data = Trajectories(torch.ones(40, 12, 1), actions)
        skills = discover(data, num_options=2, epochs=40, restarts=1, progress=False, trust=False, hidden=())
        with tempfile.TemporaryDirectory() as folder:
            skills.save(Path(folder) / "skills.safetensors")
            found = Skills.load(Path(folder) / "skills.safetensors").segment(data)
        first = found.options[:, :1].expand_as(actions)
        same = float(((found.options == first) == (actions == actions[:, :1])).float().mean())
        return {"ok": same >= 0.95, "agreement": round(same, 4), "seconds": round(time.perf_counter() - began, 1)}

    def text(self, result: dict[str, Any]) -> str:
        lines = [f"pyro-options {result['pyro_options']}, Python {result['python']}, {result['system']}", ""]
        for name, version in result["packages"].items():
            extra = PACKAGES[name]
            missing = f'missing: pip install "pyro-options[{extra}]"' if extra else "missing"
            lines.append(f"  {name:<18}{version or missing}")
        kernels = "compiled" if all(result["kernels"].values()) else 'plain torch: pip install "pyro-options[fast]"'
        threads = f"{result['threads']['torch']} of {result['threads']['cores']} cores"
        lines += [
            "",
            f"kernels    {kernels}",
            f"CUDA       {', '.join(result['cuda']) or 'none'}",
            f"threads    {threads}",
        ]
        test = result["self_test"]
        if test is not None:
            lines.append(f"self-test  {'passed' if test['ok'] else 'FAILED'} in {test['seconds']:.1f} s")
        return "\n".join(lines)
