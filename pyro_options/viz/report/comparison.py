"""Two sets of skills side by side, on the same trajectories."""

from collections.abc import Sequence
from typing import Any

import torch

from pyro_options.data.trajectories import Trajectories
from pyro_options.display.palette import ink, option_color
from pyro_options.skills.scores import adjusted_rand
from pyro_options.skills.segmentation import IN_USE, Segmentation
from pyro_options.skills.skills import Skills


def _likelihood(skills: Skills, key: str) -> str | None:
    """The log-likelihood that was measured after training, or ``None``."""
    known = skills.metadata.get("log_likelihood")
    value = known.get(key) if isinstance(known, dict) else None
    return f"{value:.4f}" if isinstance(value, int | float) else None


def _facts(skills: Skills, segmentation: Segmentation) -> dict[str, str | None]:
    gain = None if skills.trust is None else skills.trust.gain
    return {
        "options": str(skills.num_options),
        f"in use (at least {IN_USE:.0%} of steps)": str(segmentation.used_options),
        "log-likelihood, training": _likelihood(skills, "train"),
        "log-likelihood, held out": _likelihood(skills, "held_out"),
        "log-likelihood, these trajectories": f"{segmentation.log_likelihood_per_step:.4f}",
        "an option lasts, steps": f"{segmentation.mean_length:.1f}",
        "held-out gain over one policy": None if gain is None else f"{gain.mean:+.3f} ± {gain.error:.3f}",
    }


def compare(
    skills: Skills, segmentation: Segmentation, other: Skills, trajectories: Trajectories, names: Sequence[str]
) -> dict[str, Any]:
    """Figures of both, and how the options of one overlap with those of the other.

    :param names: of the two
    """
    theirs = other.segment(trajectories)
    ours, counts = segmentation.flat_options, torch.zeros(skills.num_options, other.num_options)
    counts.index_put_((ours, theirs.flat_options), torch.ones(len(ours)), accumulate=True)
    rows, columns = (counts.sum(axis).nonzero().flatten() for axis in (1, 0))
    shares = (counts / counts.sum(1, keepdim=True).clamp(min=1))[rows][:, columns]
    one, two = _facts(skills, segmentation), _facts(other, theirs)
    figures = [[key, one[key], two[key]] for key in one if one[key] is not None or two[key] is not None]
    return {
        "names": list(names),
        "figures": [[key, *(x and x.replace("-", "−") for x in pair)] for key, *pair in figures],
        "agreement": round(adjusted_rand(ours, theirs.flat_options), 3),
        "rows": rows.tolist(),
        "columns": [
            {"option": k, "name": other.names[k], "color": option_color(k), "ink": ink(option_color(k))}
            for k in columns.tolist()
        ],
        "overlap": [[round(value, 3) for value in row] for row in shares.tolist()],
    }
