"""The marginal likelihood and its gradient: ours and those of other libraries, on the same inputs."""

from collections.abc import Callable

import torch
from pyro.distributions import Categorical, DiscreteHMM
from torch import Tensor
from torch.nn.functional import logsigmoid

from pyro_options.options import CategoricalActions, OptionPath
from pyro_options.options.recursion import forward_messages

MISSING = 'not installed, skipped: pip install "pyro-options[bench]"'


def inputs(N: int, T: int, K: int, A: int = 4) -> tuple[Tensor, ...]:
    """Log weights, termination logits, action logits (all with gradients) and actions."""
    torch.manual_seed(0)
    parameters = torch.log_softmax(torch.randn(K), 0), torch.randn(N, T, K), torch.randn(N, T, K, A)
    return *(x.requires_grad_() for x in parameters), torch.randint(A, (N, T))


def emission_of(action_logits: Tensor, actions: Tensor) -> Tensor:
    return CategoricalActions(action_logits).component_log_prob(actions)


def with_gradient(log_prob: Callable[..., Tensor], parameters: tuple[Tensor, ...]) -> Callable[[], tuple]:
    """A function that computes the value and the gradient with respect to all parameters."""

    def run():
        value = log_prob(*parameters).sum()
        return value.detach(), *torch.autograd.grad(value, parameters)

    return run


def ours(log_weights: Tensor, logits: Tensor, emission: Tensor) -> Tensor:
    return OptionPath(log_weights, logits).log_marginal(emission)


def autograd_loop(log_weights: Tensor, logits: Tensor, emission: Tensor) -> Tensor:
    """The O(T K) recursion, differentiated by autograd."""
    weights = log_weights.expand(len(emission), -1)
    return forward_messages(weights, logits.movedim(1, 0), emission.movedim(1, 0)).log_normalizer.sum(0)


def discrete_hmm(log_weights: Tensor, logits: Tensor, action_logits: Tensor, actions: Tensor) -> Tensor:
    """Pyro's HMM with the (N, T, K, K) transitions of the option path.

    It applies a transition before the first observation; that one draws the option from the weights.
    """
    K = logits.shape[-1]
    switch = logsigmoid(logits).unsqueeze(-1) + log_weights
    stay = torch.diag_embed(logsigmoid(-logits)) + torch.log(torch.eye(K))
    first = log_weights.expand(len(logits), 1, K, K)
    transition = torch.cat([first, torch.logaddexp(switch, stay)[:, 1:]], 1)
    return DiscreteHMM(log_weights, transition, Categorical(logits=action_logits)).log_prob(actions)


def jax_contenders(log_weights: Tensor, logits: Tensor, emission: Tensor) -> dict[str, Callable[[], object]]:
    """Value and gradient by dynamax's filter and by a JAX scan of the O(T K) recursion, jitted; empty without JAX."""
    try:
        import jax
        import jax.numpy as jnp
        from dynamax.hidden_markov_model import hmm_filter
    except ImportError:
        return {}

    def dynamax(log_weights, logits, emission):
        weights, stop = jnp.exp(log_weights), jax.nn.sigmoid(logits)
        eye = jnp.eye(len(weights))

        def one(stop, emission):  # the matrix at index t leads from step t to t + 1; the last is not used
            stop = jnp.roll(stop, -1, 0)
            transition = (1 - stop)[..., None] * eye + stop[..., None] * weights
            return hmm_filter(weights, transition, emission).marginal_loglik

        return jax.vmap(one)(stop, emission).sum()

    def scan(log_weights, logits, emission):
        weights = jnp.exp(log_weights)
        stop = jnp.moveaxis(jax.nn.sigmoid(logits), 1, 0)
        best = emission.max(-1, keepdims=True)
        likelihood = jnp.moveaxis(jnp.exp(emission - best), 1, 0)

        def step(carry, now):
            alpha, total = carry
            stop, likelihood = now
            alpha = likelihood * ((1 - stop) * alpha + weights * (stop * alpha).sum(-1, keepdims=True))
            scale = alpha.sum(-1, keepdims=True)
            return (alpha / scale, total + jnp.log(scale[:, 0])), None

        alpha = weights * likelihood[0]
        scale = alpha.sum(-1, keepdims=True)
        start = alpha / scale, jnp.log(scale[:, 0])
        (_, total), _ = jax.lax.scan(step, start, (stop[1:], likelihood[1:]))
        return total.sum() + best.sum()

    arrays = [jnp.asarray(x.detach().numpy()) for x in (log_weights, logits, emission)]
    compiled = {
        name: jax.jit(jax.value_and_grad(f, argnums=(0, 1, 2))) for name, f in (("dynamax", dynamax), ("jax", scan))
    }
    return {name: lambda f=f: jax.block_until_ready(f(*arrays)) for name, f in compiled.items()}
