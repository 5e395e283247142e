"""Peak resident memory of a job in a separate process. Run by ``run.py``: ``python benchmarks/memory.py JOB``."""

import argparse
import re
import resource
import subprocess
import sys
from pathlib import Path


def peak_megabytes(job: str) -> float:
    """Peak memory of a new interpreter that runs one of :data:`JOBS`."""
    result = subprocess.run([sys.executable, Path(__file__), job], capture_output=True, text=True, check=True)
    return float(result.stdout.split()[-1])


def _marginal(peer: str, T: int) -> None:
    import marginals

    *parameters, actions = marginals.inputs(128, T, 8)
    if peer == "discretehmm":
        marginals.with_gradient(lambda *x: marginals.discrete_hmm(*x, actions), tuple(parameters))()
    else:

        def exact(log_weights, logits, action_logits):
            return marginals.ours(log_weights, logits, marginals.emission_of(action_logits, actions))

        marginals.with_gradient(exact, tuple(parameters))()


def _training(guide: str) -> None:
    """Two steps on 1000 trajectories of 1000 RAM states, which stay packed outside of batches."""
    from itertools import islice

    import numpy as np
    import torch
    from steps import Shape, trainer

    from pyro_options.data import Trajectories

    packed = np.random.default_rng(0).integers(256, size=(1000, 1000, 128), dtype=np.uint8)
    data = Trajectories(torch.from_numpy(packed), torch.randint(4, (1000, 1000)), num_actions=4, packed=True)
    training = trainer(guide, Shape(128, 1000), data[:1])
    for batch in islice(data.minibatches(128), 2):
        training.step(batch)


def _discovery() -> None:
    """One epoch of ``discover`` with growth on the same data, with its default batch size."""
    import numpy as np
    import torch

    from pyro_options.data import Trajectories
    from pyro_options.discovery import discover

    packed = np.random.default_rng(0).integers(256, size=(1000, 1000, 128), dtype=np.uint8)
    data = Trajectories(torch.from_numpy(packed), torch.randint(4, (1000, 1000)), num_actions=4, packed=True)
    discover(data, epochs=1, check_every=60, device="cpu", progress=False)


JOBS = {
    "import": lambda: __import__("pyro_options.discovery"),
    "exact/T1000": lambda: _marginal("exact", 1000),
    "discretehmm/T1000": lambda: _marginal("discretehmm", 1000),
    "training/exact": lambda: _training("exact"),
    "training/paper": lambda: _training("paper"),
    "discovery": _discovery,
}


def _peak() -> float:
    """Peak memory of this process in megabytes. ``getrusage`` includes the parent's memory before exec, so prefer
    ``/proc``."""
    status = Path("/proc/self/status")
    if status.exists():
        return int(re.search(r"VmHWM:\s+(\d+) kB", status.read_text())[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("job", choices=JOBS, help="what to run before its peak memory is printed")
    JOBS[parser.parse_args().job]()
    print(_peak())
