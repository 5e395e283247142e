"""One run of the message task, with all settings that the ablations change."""

import math
from dataclasses import dataclass
from typing import Any

import torch

from pyro_options import Skills, discover
from pyro_options.discovery import GUIDES, PRESETS, Growth
from pyro_options.envs import final_action_probabilities, message_demonstrations, message_success
from pyro_options.growth import UsageRule
from pyro_options.infer import Exponential, TrainConfig


@dataclass(frozen=True)
class MessageRun:
    """A run on the message task; the defaults are those of ``toy_message.py``."""

    num_messages: int = 6
    """size of the vocabulary"""
    guide: str = "relaxed"
    """posterior over paths, a key of GUIDES"""
    seed: int = 0
    """of data, initial values and training"""
    epochs: int | None = 100
    """passes over the demonstrations; ``None`` is the preset's"""
    preset: str | None = None
    """``paper`` for the settings of the paper instead of all that follow, but for a fixed K"""
    num_options: int | None = None
    """fix K instead of growing it"""
    rule: str = "evidence"
    """when to grow: evidence accepts births that improve the likelihood; usage is the paper's rule"""
    delta: float = 0.5
    """for the usage rules: grow unless some option is used in less than delta / K of the steps"""
    birth: str | None = None
    """how a new option is initialized: data (default) fits it to the worst explained trajectories; split (default of
    the usage rules) copies the most used option; random is the paper's"""
    removals: tuple[str, ...] | None = None
    """how options are removed; by default prune, and no removals with the usage rules"""
    check_every: int | None = None
    """optimizer steps between growth checks; by default 40, and 80 for the usage rules"""
    entropy_weight: float | None = None
    """initial weight of the entropy regularizer; by default that of the guide"""
    entropy_rate: float = 0.995
    """factor of the entropy weight per epoch; 1 keeps it constant"""
    entropy_per: str = "batch"
    """regularize the option usage of the batch or of each trajectory"""
    temperature: float = 1.0
    """initial temperature of the relaxation"""
    temperature_rate: float = 0.995
    """factor of the temperature per epoch"""
    independent_heads: bool = False
    """sample h_t independently of b_t, as the paper's encoder does"""
    point: bool = False
    """a point estimate of the weights instead of a posterior"""
    alpha: float = 1.0
    """initial concentration of the prior over weights; it is learned"""
    learning_rate: float = 5e-3
    """of the networks"""
    weights_learning_rate: float = 5e-2
    """of the posterior over the weights"""
    num_episodes: int = 1000
    batch_size: int = 128
    device: str = "auto"
    progress: bool = False

    def growth(self) -> Growth:
        """The growth settings."""
        measures = {"usage": "likelihood", "posterior-usage": "posterior"}
        rule: Any = UsageRule(self.delta, measures[self.rule]) if self.rule in measures else self.rule
        return Growth(rule, self.birth, self.removals, self.check_every)

    def training(self) -> TrainConfig:
        """The training settings."""
        entropy = GUIDES[self.guide].entropy_weight if self.entropy_weight is None else self.entropy_weight
        assert self.epochs is not None
        return TrainConfig(
            epochs=self.epochs,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            weights_learning_rate=self.weights_learning_rate,
            temperature=Exponential(self.temperature, self.temperature_rate, floor=0.05),
            entropy_weight=Exponential(entropy, self.entropy_rate),
            entropy_per=self.entropy_per,
        )

    def held_out(self):
        """Episodes for evaluation."""
        return message_demonstrations(self.num_messages, 200, self.seed + 10_000)

    def demonstrations(self):
        """Episodes to train on."""
        return message_demonstrations(self.num_messages, self.num_episodes, self.seed)

    def settings(self) -> dict[str, Any]:
        """Arguments of :func:`~pyro_options.discover` besides the demonstrations."""
        torch.set_num_threads(1)  # a second thread only waits on tensors this small
        where = {"seed": self.seed, "device": self.device, "progress": self.progress}
        if self.preset is not None:
            return where | {"preset": self.preset, "num_options": self.num_options, "epochs": self.epochs}
        preset = {key: value for key, value in PRESETS["message"].items() if key != "rule"}
        method = {
            "guide": self.guide,
            "num_options": self.num_options,
            "growth": self.growth(),
            "train": self.training(),
        }
        ablated = {"coupled": not self.independent_heads, "point": self.point, "alpha": self.alpha}
        return preset | method | ablated | where

    def run(self, **saving: Any) -> tuple[Skills, dict[str, Any]]:
        """Runs ``discover`` and evaluates the skills.

        :param saving: ``checkpoint`` and ``resume`` of :func:`~pyro_options.discover`
        """
        skills = discover(self.demonstrations(), **self.settings(), trust=False, **saving)
        return skills, self.results(skills)

    def results(self, skills: Skills) -> dict[str, Any]:
        """The results, evaluated on held-out episodes."""
        made, history = skills.metadata, skills.metadata["history"]
        success, worst = message_success(final_action_probabilities(skills.policy))
        found = skills.segment(self.held_out())
        return {
            "num_messages": self.num_messages,
            "guide": self.guide,
            "seed": self.seed,
            "num_options": skills.num_options,
            "used_options": found.used_options,
            "options_in_use": made["options_in_use"],
            "success": success,
            "min_message_probability": worst,
            "objective": history["objective"][-1],
            "exact_log_likelihood": found.log_likelihood_per_step,
            "best_possible_log_likelihood": -math.log(self.num_messages) / 5,
            "epochs": len(history["objective"]),
            "seconds": made["seconds"],
            "growth_epochs": history["growth_epochs"],
            "removal_epochs": history["removal_epochs"],
            "usage": found.usage().tolist(),
        }
