"""What a trained model says about data. Everything goes through the exact path distribution."""

from dataclasses import dataclass

import torch
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.options.path import OptionPath


@dataclass(frozen=True)
class Explanation:
    """How a model explains episodes."""

    log_likelihood: float  # exact, in nats per step, at the mean weights
    usage: Tensor  # (K,) share of steps in the most probable option sequences
    options: Tensor  # (N, T) most probable option of each step; padded steps repeat the last
    switches: Tensor  # (N, T) posterior probability that a new option starts

    @property
    def used_options(self) -> int:
        """Options that cover at least one step in a hundred."""
        return int((self.usage >= 0.01).sum())


def path_and_emission(model, guide, episodes: Trajectories) -> tuple[OptionPath, Tensor]:
    """The path prior at the mean weights and log π_k(a_t | s_t): all that questions about options need."""
    emission = model.policy(episodes.states, mask=episodes.mask).component_log_prob(episodes.actions)
    return model.path(guide.weights.mean_log_weights(), episodes), emission


@torch.no_grad()
def explain(model, guide, data: Trajectories, batch_size: int = 256) -> Explanation:
    """Exact likelihood and segmentation of ``data``."""
    total, options, switches = 0.0, [], []
    counts = torch.zeros(model.num_options, dtype=torch.long)
    device = next(model.parameters()).device
    for batch in data.minibatches(min(batch_size, data.rows_together())):
        batch = batch.to(device)
        path, emission = path_and_emission(model, guide, batch)
        posterior = path.posterior(emission)
        best, _ = path.viterbi(emission)
        total += float(posterior.log_marginal.sum())
        counts += torch.bincount(best[batch.mask], minlength=model.num_options).cpu()
        options.append(best.cpu())
        switches.append(posterior.switches.cpu())
    return Explanation(total / data.num_steps, counts / data.num_steps, torch.cat(options), torch.cat(switches))


@torch.no_grad()
def final_action_probabilities(model, num_steps: int = 5) -> Tensor:
    """Message task: what each option says at the last step, ``(K, num_messages)``."""
    check(num_steps >= 2, "num_steps >= 2", num_steps)
    parameter = next(model.parameters())
    last = torch.tensor([[[num_steps - 1, -1]]], dtype=parameter.dtype, device=parameter.device)
    return torch.softmax(model.policy(last).logits, -1)[0, 0].cpu()


def message_success(probabilities: Tensor, threshold: float = 0.95) -> tuple[bool, float]:
    """Whether every message has an option that says it, and the probability of the message served worst."""
    worst = float(probabilities.max(0).values.min())
    return worst >= threshold, worst
