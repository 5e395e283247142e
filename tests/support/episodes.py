"""Small sets of demonstrations, and how two sets are compared."""

import torch

from pyro_options.data import Trajectories

#: actions of three episodes, in blocks of one action each
BLOCKS = ([0] * 6 + [1] * 4 + [2] * 8, [1] * 5, [2] * 3 + [0] * 3)


def make_episodes(num_episodes=6, num_steps=5, state_dim=3, num_actions=4, seed=0):
    """Random states, discrete actions and lengths."""
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(num_episodes, num_steps, state_dim, generator=generator)
    actions = torch.randint(num_actions, (num_episodes, num_steps), generator=generator)
    lengths = torch.randint(1, num_steps + 1, (num_episodes,), generator=generator)
    return Trajectories(states, actions, lengths, num_actions)


def make_continuous_episodes(num_episodes=16, action_dim=2, dtype=torch.float32):
    """The states, of this type, and lengths of :func:`make_episodes` with continuous actions."""
    discrete = make_episodes(num_episodes)
    return Trajectories(discrete.states.to(dtype), torch.randn(num_episodes, 5, action_dim), discrete.lengths)


def make_packed_episodes(num_episodes=6, num_bytes=3, num_actions=9):
    """Random bytes as states, with the actions and lengths of :func:`make_episodes`."""
    discrete = make_episodes(num_episodes)
    states = torch.randint(256, (num_episodes, 5, num_bytes), dtype=torch.uint8)
    return Trajectories(states, discrete.actions, discrete.lengths, num_actions, packed=True)


def two_kinds_of_episodes(num_episodes=60):
    """Episodes of one action and episodes of another, which one option cannot explain."""
    torch.manual_seed(0)
    actions = torch.tensor([[0] * 5, [1] * 5] * (num_episodes // 2))
    return Trajectories(torch.randn(num_episodes, 5, 3), actions, num_actions=4)


def episodes_with_actions(*rows):
    """Random states, an episode for each row of actions."""
    return Trajectories.from_episodes([(torch.randn(len(row), 3), torch.tensor(row)) for row in rows], num_actions=4)


def assert_same_trajectories(one, other):
    """The same numbers of the same types, packed or not."""
    for name in ("stored", "actions", "lengths"):
        first, second = getattr(one, name), getattr(other, name)
        if first is None or second is None:
            assert first is second, name
        else:
            assert first.dtype == second.dtype and torch.equal(first, second), name
    assert (one.num_actions, one.packed) == (other.num_actions, other.packed)
