"""Measures how far a discovery can be trusted, after training."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.growth.verdict import total_and_error
from pyro_options.infer.callbacks import Callback, Phase
from pyro_options.infer.trainer import Trainer
from pyro_options.nn.state_network import StateNetwork
from pyro_options.options.families import GaussianFamily, bounds_of
from pyro_options.options.policies import CategoricalPolicy
from pyro_options.skills.episodes import batches
from pyro_options.skills.from_model import to_skills
from pyro_options.skills.scores import adjusted_rand
from pyro_options.skills.segmentation import Segmentation
from pyro_options.skills.skills import Skills
from pyro_options.skills.trust import Gain, Trust

from .action_families import looks_one_hot
from .budget import state_inputs

#: widths of the larger network of a single policy
LARGER = (64, 64)

#: share of the epochs for which a single policy is trained, and its initial learning rate with a network: one policy
#: bears a higher rate than many options, and must be trained well to be a fair comparison
ONE_POLICY = 0.6
ONE_POLICY_RATE = 0.02

#: trainings from other starts, and the share of the epochs that each of them gets
OTHER_STARTS = 2
OTHER_SHARE = 0.35

#: standard deviations from zero beyond which float32 keeps too few digits of an entry of the states
FAR = 1e4

#: steps to look at, at most
_STEPS = 20_000


@dataclass(frozen=True)
class Judged:
    """Log-likelihoods of episodes that the skills were not trained on."""

    episodes: Trajectories
    scores: Tensor  # (N,) of the skills, in nats
    train_on: Trajectories  # episodes to train a single policy on for comparison

    def gain(self, other: Tensor) -> Gain:
        """Nats per step beyond other scores of the same episodes."""
        total, error = total_and_error(self.scores - other)
        steps = self.episodes.num_steps
        return Gain(total / steps, error / steps)


def input_warnings(data: Trajectories) -> tuple[str, ...]:
    """Warnings about the demonstrations themselves."""
    found = []
    if not data.discrete and all(map(looks_one_hot, data.given_actions().chunks())):
        found.append("Actions are one-hot vectors: pass their indices, as integers, to treat them as discrete.")
    if data.state_steps.dtype.is_floating_point:
        states = torch.cat(list(data[: data.rows_together(_STEPS)].state_chunks())).double()
        far = states.mean(0).abs() > FAR * states.std(0).clamp(min=1e-300)
        far &= (states != states[:1]).any(0)
        if bool(far.any()):
            entries = ", ".join(str(i) for i in far.nonzero().flatten().tolist()[:5])
            found.append(
                f"State entries {entries} vary little around a large value, of which float32 keeps few digits: "
                "subtract it before."
            )
    return tuple(found)


def share_at_bounds(data: Trajectories, families: Any) -> float | None:
    """Share of the steps at which an action is at a bound where it saturates; ``None`` for discrete actions."""
    if data.discrete or isinstance(families, str):
        return None
    real = [d for d, family in enumerate(families) if isinstance(family, GaussianFamily)]
    low, high = bounds_of(families, data.given_actions().dtype)
    parts = (part[:, real].cpu() for part in data.given_actions().chunks())
    return sum(int(((part <= low) | (part >= high)).any(-1).sum()) for part in parts) / data.num_steps


def log_num_actions(data: Trajectories) -> float | None:
    """The entropy of uniformly random actions, for discrete actions."""
    if data.num_actions is None:
        return None
    counts = data.num_actions if isinstance(data.num_actions, tuple) else (data.num_actions,)
    return sum(math.log(n) for n in counts)


def _read(data: Trajectories, network: StateNetwork | None) -> tuple[Tensor, nn.Module | None]:
    """Inputs of a classifier ``(steps, D)``, and the layer before it: features of a network, or standardized states."""
    if network is None:
        return torch.cat(list(data.state_chunks())).to(torch.get_default_dtype()), state_inputs(data)
    with torch.no_grad():
        return torch.cat([network(part) for part in data.state_steps.chunks()]), None


def state_reveals(
    data: Trajectories, segmentation: Segmentation, network: StateNetwork | None = None, steps: int = 150
) -> float | None:
    """Share of the entropy of the option that a linear classifier on the states removes, on the second half of them.

    :param network: classify its features instead of the states
    :returns: ``None`` if one option is on at all steps
    """
    data = data[: max(2, _STEPS // data.typical_length if network is not None else data.rows_together(_STEPS))]
    options = segmentation.flat_options[: data.num_steps].to(data.device)
    half = int(data.lengths[: len(data) // 2].sum())  # steps of the first half of the episodes
    K = int(options.max()) + 1
    frequency = torch.bincount(options[:half], minlength=K).double() + 1
    entropy = -float((frequency / frequency.sum()).log()[options[half:]].mean())
    if K == 1 or not half or entropy < 0.05:
        return None
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        states, inputs = _read(data, network)
        classifier = CategoricalPolicy(states.shape[-1], 1, K, network=inputs).to(data.device)
        nn.init.zeros_(classifier.heads.weight)
        optimizer = torch.optim.Adam(classifier.parameters(), lr=0.05)
        states = states.to(next(classifier.parameters()).dtype).unsqueeze(0)
        for _ in range(steps):
            loss = -classifier(states[:, :half]).component_log_prob(options[:half].unsqueeze(0)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            left = -float(classifier(states[:, half:]).component_log_prob(options[half:].unsqueeze(0)).mean())
    return max(0.0, 1 - left / entropy)


@torch.no_grad()
def memoryless_scores(skills: Skills, fit_to: Trajectories, episodes: Trajectories, steps: int = 200) -> Tensor:
    """Log-likelihoods of episodes if one of the options is drawn anew at every step, ``(N,)``.

    :param fit_to: episodes that the weights of the options are fitted to, by expectation maximization
    """
    some = fit_to[: fit_to.rows_together(_STEPS)]
    seen = torch.cat([emission[batch.mask] for _, batch, _, emission, _ in batches(skills, some, len(some))])
    log_weights = seen.new_full((skills.num_options,), -math.log(skills.num_options))
    for _ in range(steps):
        log_weights = torch.log_softmax(seen + log_weights, -1).logsumexp(0) - math.log(len(seen))
    found = torch.zeros(len(episodes), dtype=torch.float64)
    for index, batch, _, emission, nats in batches(skills, episodes, len(episodes)):
        mixed = (emission + log_weights).logsumexp(-1)
        found[index] = (torch.where(batch.mask, mixed, 0.0).sum(-1) + nats).double().cpu()
    return found


def measure(
    skills: Skills,
    data: Trajectories,
    judged: Judged | None,
    one_policy: Callable[[Trajectories, tuple[int, ...] | None], Trainer],
    others: list[Skills],
    families: Any,
    callbacks: Callback = Callback(),
    inputs: Sequence[str] = (),
) -> Trust:
    """The record of trust of these skills.

    :param judged: held-out episodes with their scores; without them there are no gains
    :param one_policy: makes a trainer of a single policy for given episodes, with the skills' own network (``None``) or
        one of given widths
    :param others: skills from other starts
    :param families: of the action dimensions
    :param callbacks: told of every training
    :param inputs: warnings about the demonstrations, see :func:`input_warnings`
    """
    segmentation = skills.segment(data)
    own = skills.policy.network if isinstance(skills.policy.network, StateNetwork) else None
    found: dict = {"at_bounds": share_at_bounds(data, families), "inputs": tuple(inputs)}
    if judged is not None:
        steps = judged.episodes.num_steps
        held_out = float(judged.scores.sum()) / steps
        found["gap"] = skills.log_likelihood(judged.train_on) - held_out
        if segmentation.used_options > 1:
            lasting = skills.episode_log_likelihoods(judged.episodes)  # not judged.scores: skills may be trained on
            total, error = total_and_error(lasting - memoryless_scores(skills, judged.train_on, judged.episodes))
            found["gain_over_memoryless"] = Gain(total / steps, error / steps)
        entropy = log_num_actions(data)
        found["chance"] = None if entropy is None else held_out + entropy
        singles = [("gain", None)] + ([("gain_over_larger", LARGER)] if own is None else [])
        for number, (name, widths) in enumerate(singles, 1):
            callbacks.on_phase(Phase("one policy", number, len(singles)))
            trainer = one_policy(judged.train_on, widths)
            trainer.run()
            single = to_skills(trainer.model, trainer.guide, packed=data.packed)
            found[name] = judged.gain(single.episode_log_likelihoods(judged.episodes))
    if others:
        other = [one.segment(data) for one in others]
        found["other_counts"] = tuple(one.used_options for one in other)
        agreements = [adjusted_rand(segmentation.flat_options, one.flat_options) for one in other]
        found["agreement"] = sum(agreements) / len(agreements)
    return Trust(
        num_options=segmentation.used_options,
        mean_length=segmentation.mean_length,
        state_reveals=state_reveals(data, segmentation, own),
        **found,
    )
