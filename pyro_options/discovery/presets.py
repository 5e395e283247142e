"""Settings for a task or after a paper, by name: what ``preset=`` of ``discover`` and ``build`` means."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import choice
from pyro_options.infer.schedules import Exponential
from pyro_options.infer.train_config import TrainConfig

from .config import METHODS, PRESETS
from .growth import GROWTH_FIELDS
from .registry import GUIDES

#: the guide of the paper, a key of GUIDES
PAPER_GUIDE = "paper"

#: appendix C: episodes per update, epochs between checks of the usage, and the initial weight of the entropy
_BATCH, _CHECK_EPOCHS, _ENTROPY = 128, 10, 5.0


@dataclass(frozen=True)
class Settings:
    """Fields of :class:`MethodConfig` and :class:`Growth`, and how to train; ``None`` is a :class:`Budget`."""

    method: Mapping[str, Any]
    train: TrainConfig | None = None


def paper_settings(data: Trajectories, guide: str = PAPER_GUIDE) -> Settings:
    """The paper's sections 4 and 5 and appendix C: those of its Atari experiments for packed bits, else its messages.

    The paper leaves two things open: how parameters of new sticks are drawn (here: log a and log b with a standard
    deviation of 0.1), and clipping of gradients, which it does not mention (here: none).

    :param guide: of the method; the entropy regularizer belongs to those with an encoder
    """
    atari = data.packed
    rate = 1e-3 if atari else 5e-3
    method = {
        "hidden": () if atari else (16, 16),  # linear on Atari, so that a single option cannot explain everything
        "skip_constant": False,
        "standardize": False,
        "censored": False,
        "embedding": 0,
        "lstm_size": 32,
        "encoder_hidden": (32, 32),
        "coupled": False,
        "infer_first": True,
        "random_columns": True,
        "stick_jitter": 0.1,
        "num_segments": 7,
        "max_duration": 15,
        "rule": "usage",
        "birth": "random",
        "removals": (),
        "initial_options": 1,
        "patience": 1,
        "settle": 0,
        "check_every": _CHECK_EPOCHS * math.ceil(len(data) / _BATCH),
    }
    train = TrainConfig(
        epochs=1500 if atari else 500,
        batch_size=_BATCH,
        learning_rate=rate,
        weights_learning_rate=rate,
        clip_norm=None,
        temperature=Exponential(1.0, 0.999 if atari else 0.995),
        entropy_weight=Exponential(_ENTROPY if GUIDES[guide].entropy_weight else 0.0, 0.995),
        entropy_per="trajectory",
    )
    return Settings(method, train)


def with_preset(
    preset: str | None, data: Trajectories, method: str | None, config: Mapping[str, Any]
) -> tuple[dict[str, Any], TrainConfig | None]:
    """``config`` with the settings of a preset added, and its training settings.

    What ``config`` or the method says goes before the preset.

    :param preset: ``paper``, a key of :data:`PRESETS`, or ``None``
    """
    if preset is None:
        return dict(config), None
    fixed: Mapping[str, Any] = {} if method is None else METHODS[choice(method, "method", METHODS)]
    if choice(preset, "preset", ("paper", *PRESETS)) == "paper":
        guide = fixed.get("guide", config.get("guide", PAPER_GUIDE))
        found = paper_settings(data, guide if isinstance(guide, str) else PAPER_GUIDE)
        open_guide = method is None and not config.keys() & {"model", "guide", "prior"}
        found = Settings({**found.method, "guide": guide} if open_guide else found.method, found.train)
    else:
        found = Settings(PRESETS[preset])
    own = [*fixed, *(name for name, value in config.items() if value is not None)]
    own += GROWTH_FIELDS if config.get("growth") is not None else ()
    added = {name: value for name, value in found.method.items() if name not in own}
    return {**config, **added}, found.train
