"""Small growable modules, the output of each of their components, and inputs for them."""

import torch
from torch import nn

from pyro_options.growth import GrowableHeads, GrowableInput, num_components
from pyro_options.guides import GrowableGEM, PointGEM
from pyro_options.options import CategoricalPolicy, GaussianPolicy, PathEncoder, Termination

N, T, D, A, K = 3, 4, 3, 2, 4
LENGTHS = (4, 2, 1)


class OwnNetwork(nn.Module):
    """What a user might bring: another width out than in, and parameters that no growable knows."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(D, 5)

    def forward(self, x):
        return torch.sin(self.linear(x))


def randomized(module):
    """Every parameter moved away from its initial value, so that components differ."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module


STATES, DISCRETE, CONTINUOUS = (
    torch.randn(N, T, D, generator=torch.Generator().manual_seed(1)),
    torch.tensor([[0, 1, 1, 0]] * N),
    torch.linspace(-1, 1, N * T * A).reshape(N, T, A),
)

# name -> (builder, what each component says, (K, ...))
BUILDERS = {
    "heads": (lambda: GrowableHeads(D, K, A), lambda m: m(STATES).movedim(-2, 0)),
    "input": (lambda: GrowableInput(K, 5), lambda m: m(torch.eye(num_components([m])))),
    "categorical": (
        lambda: CategoricalPolicy(D, K, A, hidden=(5,)),
        lambda m: m(STATES).component_log_prob(DISCRETE).movedim(-1, 0),
    ),
    "categorical, own network": (
        lambda: CategoricalPolicy(D, K, A, network=OwnNetwork()),
        lambda m: m(STATES).component_log_prob(DISCRETE).movedim(-1, 0),
    ),
    "gaussian": (
        lambda: GaussianPolicy(D, K, A, hidden=(5, 5)),
        lambda m: m(STATES).component_log_prob(CONTINUOUS).movedim(-1, 0),
    ),
    "termination": (lambda: Termination(D, K, initial_logit=-1.0), lambda m: m(STATES).movedim(-1, 0)),
    "gem": (lambda: GrowableGEM(K), lambda m: m.mean_log_weights().exp()),
    "point": (lambda: PointGEM(K), lambda m: m.mean_log_weights().exp()),
}


def build(name):
    builder, components = BUILDERS[name]
    return randomized(builder()), components


ENCODERS = {
    "encoder": lambda: PathEncoder(D, K, lstm_size=6, hidden=(8, 7)),
    "encoder, one layer": lambda: PathEncoder(D, K, lstm_size=6, hidden=(8,)),
    "encoder, own network": lambda: PathEncoder(D, K, lstm_size=6, hidden=(8, 7), network=OwnNetwork()),
}
