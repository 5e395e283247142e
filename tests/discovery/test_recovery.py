"""Known options are recovered."""

import pytest

from pyro_options.data import synthetic_options
from pyro_options.discovery import build
from pyro_options.infer import TrainConfig, Trainer, set_seed
from pyro_options.skills import label_scores, to_skills


@pytest.mark.parametrize("num_actions", [6, None], ids=["discrete", "continuous"])
def test_the_five_true_options_are_found_among_eight(num_actions):
    """With more options than needed and the exact guide; the score is on episodes that were not trained on."""
    truth = synthetic_options(num_episodes=240, num_actions=num_actions)
    train, held = truth.trajectories[:200], truth.trajectories[200:]
    set_seed(0)
    method = build("options-exact", train, num_options=8)
    config = TrainConfig(epochs=40, batch_size=64, learning_rate=3e-2, device="cpu", progress=False)
    Trainer(method.model, method.guide, train, config).run()
    found = to_skills(method.model, method.guide).segment(held)
    assert found.used_options == 5
    assert label_scores(found.options, truth.options[200:], held.mask).accuracy >= 0.95
