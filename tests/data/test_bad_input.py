"""Bad input is refused with a message of what was expected, what was given and what to do."""

import pytest
import torch
from support.episodes import make_episodes
from support.option_models import make_model

from pyro_options.data import Trajectories
from pyro_options.discovery import Growth, MethodConfig, build
from pyro_options.envs import MessageEnv, message_demonstrations
from pyro_options.growth import DataBirth, EvidenceRule, SplitBirth, UsageRule, grow, permute, prune, resize
from pyro_options.guides import Exact, weights_guide
from pyro_options.handlers import EntropyMessenger, GrowthMessenger, TemperMessenger
from pyro_options.infer import Exponential, TrainConfig, set_seed
from pyro_options.models import OptionHMM, high_level_prior
from pyro_options.options import CategoricalPolicy, GaussianPolicy, PathEncoder, Termination

STATES, ACTIONS = torch.zeros(3, 4, 2), torch.zeros(3, 4, dtype=torch.long)


def with_nan(tensor, index):
    tensor = tensor.clone()
    tensor[index] = float("nan")
    return tensor


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Trajectories(STATES[:0], ACTIONS[:0]), "at least one episode"),
        (lambda: Trajectories(STATES[:, :0], ACTIONS[:, :0]), "at least one episode"),
        (lambda: Trajectories(STATES[0], ACTIONS[0]), r"states of shape \(N, T, D\).*states\[None\]"),
        (
            lambda: Trajectories(STATES[..., None].byte(), ACTIONS, packed=True),
            r"packed states with one axis of bytes.*reshape\(N, T, -1\)",
        ),
        (lambda: Trajectories(STATES.numpy().astype(object), ACTIONS), "numbers of one type"),
        (lambda: Trajectories([STATES[0].tolist(), STATES[1, :2].tolist()], ACTIONS), "use Trajectories.from_episodes"),
        (lambda: Trajectories(STATES.long(), ACTIONS), "floating point states"),
        (lambda: Trajectories(STATES, ACTIONS[:2]), r"actions of shape \(3, 4"),
        (lambda: Trajectories(STATES, ACTIONS[..., None, None]), r"integer actions of shape \(N, T\)"),
        (
            lambda: Trajectories(STATES, ACTIONS.float()),
            r"continuous .*\.long\(\).*actions\[\.\.\., None\]",
        ),
        (lambda: Trajectories(STATES, ACTIONS.float()[..., None], num_actions=3), "num_actions=None"),
        (lambda: Trajectories(STATES, ACTIONS - 1), "actions >= 0 but got -1 at episode 0"),
        (lambda: Trajectories(STATES, ACTIONS + 2**31 - 1), "actions < 10000 .* at episode 0.*num_actions="),
        (lambda: Trajectories(STATES, ACTIONS + 5, num_actions=4), r"actions in \[0, 3\] but got 5 at episode 0"),
        (lambda: Trajectories(with_nan(STATES, (1, 2, 0)), ACTIONS), "finite states .* episode 1"),
        (lambda: Trajectories(STATES, with_nan(STATES, (2, 0, 0))), "finite actions .* episode 2"),
        (lambda: Trajectories(STATES, ACTIONS, torch.tensor([4, 0, 1])), r"lengths in \[1, 4\] but got 0 at episode 1"),
        (lambda: Trajectories(STATES, ACTIONS, torch.tensor([4, 5, 1])), r"lengths in \[1, 4\] but got 5 at episode 1"),
        (lambda: Trajectories(STATES, ACTIONS, torch.tensor([4.0, 4.0, 4.0])), "integer lengths"),
        (lambda: Trajectories(STATES, ACTIONS, torch.tensor([4, 4])), r"lengths of shape \(3,\)"),
        (lambda: Trajectories.from_episodes([]), "at least one episode"),
        (lambda: Trajectories.from_episodes([(STATES[0], ACTIONS[0][:2])]), "4 states and 2 actions at episode 0"),
        (lambda: Trajectories.from_episodes([(STATES[0][:0], ACTIONS[0][:0])]), "none at episode 0"),
        (
            lambda: Trajectories.from_episodes([(None, ACTIONS[0])]),
            r"states of episode 0 .* of one type\.$",
        ),
        (lambda: Trajectories.from_episodes([{"states": STATES[0], "actions": ACTIONS[0]}]), "got dict at episode 0"),
        (lambda: Trajectories.from_episodes(3), "pairs of states and actions, but got int"),
        (lambda: make_episodes().split(0.0), "fraction"),
        (lambda: make_episodes().split("0.2"), "a fraction .* but got '0.2'"),
        (lambda: list(make_episodes().minibatches(0)), "batch size >= 1"),
        (lambda: CategoricalPolicy(2, 0, 3), "num_options >= 1"),
        (lambda: CategoricalPolicy(2, 1, 0), "num_actions >= 1"),
        (lambda: GaussianPolicy(2, 1, 0), "action_dim >= 1"),
        (lambda: Termination(0, 1), "state_dim >= 1"),
        (lambda: PathEncoder(3, 0), "num_options >= 1"),
        (lambda: OptionHMM(CategoricalPolicy(2, 2, 3), Termination(2, 3)), "as many policies as terminations"),
        (lambda: OptionHMM(CategoricalPolicy(2, 2, 3), Termination(2, 2), alpha=0.0), "alpha > 0"),
        (lambda: high_level_prior("dirichlet"), "gem, truncated, uniform"),
        (lambda: weights_guide("gem", 0), "num_components >= 1"),
        (lambda: UsageRule(0.0), r"delta in \(0, 1\)"),
        (lambda: UsageRule(1.0), r"delta in \(0, 1\)"),
        (lambda: UsageRule(0.5, "guess"), "measure"),
        (lambda: EvidenceRule(min_gain=-1.0), "min_gain >= 0"),
        (lambda: SplitBirth(-1.0), "noise >= 0"),
        (lambda: DataBirth(share=0.0), r"share in \(0, 1\]"),
        (lambda: GrowthMessenger([make_model()], every=0, site="actions"), "every >= 1"),
        (lambda: GrowthMessenger([make_model()], max_components=1, site="actions"), "max_components >= 3"),
        (lambda: GrowthMessenger([torch.nn.Linear(1, 1)], site="actions"), "at least one growable layer"),
        (
            lambda: GrowthMessenger([make_model(), Exact(weights_guide("gem", 2))], site="actions"),
            "same number of components",
        ),
        (lambda: grow([make_model()], 0), "count >= 1"),
        (lambda: prune([make_model()], [3]), r"indices in \[0, 2\]"),
        (lambda: prune([make_model()], [0, 1, 2]), "at least one component"),
        (lambda: permute([make_model()], [0, 1]), "a permutation"),
        (lambda: resize([make_model()], [0, 0]), "distinct indices"),
        (lambda: EntropyMessenger(-1.0, "actions"), "weight >= 0"),
        (lambda: EntropyMessenger(1.0, "actions", per="step"), '"batch" or "trajectory"'),
        (lambda: TemperMessenger(0.0), "temperature > 0"),
        (lambda: Exponential(1.0, 1.5), r"rate in \(0, 1\]"),
        (lambda: TrainConfig(epochs=-1), "epochs >= 0"),
        (lambda: TrainConfig(batch_size=0), "batch_size >= 1"),
        (lambda: TrainConfig(learning_rate=0.0), "learning_rate > 0"),
        (lambda: set_seed(-1), "a seed"),
        (lambda: MethodConfig(guide="mcmc"), "guide to be one of exact, .*relaxed"),
        (lambda: Growth(rule="magic"), "rule to be one of"),
        (lambda: Growth(birth="magic"), "birth to be one of"),
        (lambda: MethodConfig(num_options=0), "num_options >= 1"),
        (lambda: MethodConfig(prior="uniform"), "Uniform weights cannot grow"),
        (lambda: build("dads", make_episodes()), "method to be one of"),
        (lambda: build("options-paper", make_episodes().without_actions()), "demonstrations with actions"),
        (lambda: MessageEnv(1), "num_messages >= 2"),
        (lambda: MessageEnv(3, num_steps=1), "num_steps >= 2"),
        (lambda: message_demonstrations(3, 0), "num_episodes >= 1"),
    ],
)
def test_bad_input_names_what_was_expected(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_garbage_in_the_padding_is_cleared_not_refused():
    states = torch.randn(2, 3, 2)
    states[0, 2] = float("nan")
    actions = torch.tensor([[0, 1, -7], [1, 0, 1]])
    data = Trajectories(states, actions, torch.tensor([2, 3]))
    assert data.num_actions == 2 and data.states.isfinite().all() and data.actions.min() == 0
    assert data.steps().isfinite().all()
