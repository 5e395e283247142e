"""Binary choices of a mouse that is engaged or biased: a GLM-HMM with three states as in Ashwood et al. (2022)."""

import numpy as np

from .task import Episode, Task, make_task

STATES = ("engaged", "biased left", "biased right")
#: weights of stimulus, bias, previous choice and win-stay-lose-switch on choosing right
WEIGHTS = np.array([[6.0, 0.0, 0.2, 0.2], [1.5, -2.5, 0.3, 0.1], [1.5, 2.5, 0.3, 0.1]])
STAY = np.array([0.98, 0.96, 0.97])
CONTRASTS = np.array([0.0, 0.0625, 0.125, 0.25, 0.5, 1.0])


def _episode(rng: np.random.Generator) -> Episode:
    state = int(rng.integers(len(STATES)))
    choice, rewarded = int(rng.integers(2)), bool(rng.integers(2))
    inputs, choices, labels = [], [], []
    for _ in range(rng.integers(180, 221)):
        side = int(rng.integers(2))  # where the stimulus is, which a choice must equal
        previous = 2 * choice - 1
        row = np.array([rng.choice(CONTRASTS) * (2 * side - 1), 1.0, previous, previous if rewarded else -previous])
        choice = int(rng.random() < 1 / (1 + np.exp(-WEIGHTS[state] @ row)))
        rewarded = choice == side
        inputs.append(row)
        choices.append(choice)
        labels.append(state)
        if rng.random() > STAY[state]:
            state = int(rng.choice([k for k in range(len(STATES)) if k != state]))
    return Episode(inputs, choices, labels)


def glm_hmm(seed: int, episodes: int = 45) -> Task:
    """Sessions of about 200 trials. Terminations do not depend on the inputs."""
    rng = np.random.default_rng(seed)
    return make_task("glm_hmm", [_episode(rng) for _ in range(episodes)], len(STATES), 2)
