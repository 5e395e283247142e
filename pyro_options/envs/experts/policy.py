"""An expert that is a small network on the bits of the RAM."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from pyro_options.errors import check, choice
from pyro_options.persistence.storage import Format

from .ram_expert import RamExpert

FORMAT = Format("pyro_options.PolicyExpert", 1, "benchmarks/train_experts.py")

#: games of which the package has a network
TRAINED = ("Alien", "Asterix", "Asteroids", "ChopperCommand", "SpaceInvaders")

_ASSETS = Path(__file__).parent / "assets"


def asset(game: str) -> Path:
    """The file of the package with the network of a game."""
    return _ASSETS / f"{game}.safetensors"


def save_policy(path: str | os.PathLike, layers: Sequence[tuple[Tensor, Tensor]], about: Mapping[str, Any]) -> None:
    """Writes a network in half precision.

    :param layers: weight (out, in) and bias (out,) of each layer; all but the last are followed by tanh
    :param about: JSON values, with ``game``, ``frame_skip`` and whatever tells where the network is from
    """
    tensors = {f"{name}{i}": part.half() for i, layer in enumerate(layers) for name, part in zip("wb", layer)}
    FORMAT.write(path, dict(about), tensors)


class PolicyExpert(RamExpert):
    r"""Acts by a network that was trained with PPO, :math:`\pi(a\mid s)` with the bits s of the RAM.

    It sees no more than a skill on the RAM does, in contrast to :class:`SearchExpert`. With ``deterministic`` it takes
    the most probable action. Otherwise it draws one, with random numbers that are a function of the game so far and the
    seed.

    :param game: one that the package has a network of, such as ``Alien``
    :param frame_skip: frames that each action lasts; that of the training, which is 4
    :param deterministic: take the most probable action instead of sampling
    :param seed: of sampled actions
    :param path: another file of ``benchmarks/train_experts.py``
    """

    def __init__(
        self,
        game: str,
        frame_skip: int = 4,
        deterministic: bool = True,
        seed: int = 0,
        path: str | os.PathLike | None = None,
    ):
        super().__init__(frame_skip)
        if path is None:
            choice(game, "game", TRAINED)
        self.about, tensors = FORMAT.read(asset(game) if path is None else path)
        check(self.about["game"] == game, f"a network of {game}", self.about["game"])
        trained = self.about["frame_skip"]
        check(frame_skip == trained, f"frame_skip={trained}, with which the network was trained,", frame_skip)
        self.deterministic, self.seed = deterministic, seed
        arrays = {name: tensor.to(torch.float32).numpy() for name, tensor in tensors.items()}
        self._layers = [(arrays[f"w{i}"].T.copy(), arrays[f"b{i}"]) for i in range(len(arrays) // 2)]

    def logits(self, rams: np.ndarray) -> np.ndarray:
        """Unnormalized log-probabilities of the actions, (n, A), for RAM (n, 128)."""
        hidden = np.unpackbits(rams, axis=-1).astype(np.float32)
        for weight, bias in self._layers[:-1]:
            hidden = np.tanh(hidden @ weight + bias)
        weight, bias = self._layers[-1]
        return hidden @ weight + bias

    def act(self, ram, memory):
        return self.act_all(np.array([ram], np.uint8), (memory,))[0]

    def act_all(self, rams, memories):
        logits = self.logits(np.asarray(rams, np.uint8))
        if self.deterministic:
            return [(action, None) for action in logits.argmax(-1).tolist()]
        chances = np.exp(logits.astype(float) - logits.max(-1, keepdims=True)).cumsum(-1)
        seen = [crc32(ram.tobytes(), self.seed if old is None else old) for ram, old in zip(rams, memories)]
        draws = np.array([np.random.default_rng(one).random() for one in seen])
        actions = (chances < (draws * chances[:, -1])[:, None]).sum(-1)
        return list(zip(actions.tolist(), seen))
