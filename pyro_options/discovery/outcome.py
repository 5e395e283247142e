"""From a trained model to skills, with the record of how they were found and how far they can be trusted."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from pyro_options.data.trajectories import Trajectories
from pyro_options.infer.callbacks import Callbacks
from pyro_options.infer.counts import ComponentCounts, component_counts
from pyro_options.infer.trainer import Trainer
from pyro_options.skills.from_model import to_skills
from pyro_options.skills.places import find_places
from pyro_options.skills.segmentation import IN_USE
from pyro_options.skills.skills import Skills
from pyro_options.skills.trust import Trust

from .assembly import Plan
from .search import Trial
from .trainings import one_policy
from .trust import Judged, measure
from .units import Units


def found_skills(model: Any, guide: Any, data: Trajectories, action_names=None, metadata=None) -> Skills:
    """The skills of a trained model, with their statistics on ``data``, the most used first."""
    given = {"packed": data.packed, "action_names": action_names, "metadata": metadata}
    return with_summary(to_skills(model, guide, **given), data)


def with_summary(skills: Skills, data: Trajectories) -> Skills:
    """Skills with their statistics on ``data``, the most used first."""
    segmentation = skills.segment(data)
    skills.summary = skills.summarize(data, segmentation)
    skills.metadata["places"] = [one.to_dict() for one in find_places(segmentation, data)]
    return skills.used(0.0)


def options_in_use(
    trainer: Trainer,
    data: Trajectories,
    num_draws: int = 20,
    episodes: int = 64,
    steps: int = 500,
    others: Sequence[Trainer] = (),
) -> ComponentCounts:
    """The posterior over the number of options that cover at least 1 % of the steps, by sampling weights and paths.

    Given one start the draws hardly differ, while other starts find other numbers, so their draws are put together.

    :param episodes: use at most this many first episodes
    :param steps: use at most this many first steps of each
    :param others: trainers from other starts
    """
    if others:
        found = [options_in_use(one, data, num_draws, episodes, steps) for one in (trainer, *others)]
        return ComponentCounts(torch.cat([one.draws for one in found]), max(one.num_components for one in found))
    shown = data[:episodes].cut(steps).to(trainer.device, next(trainer.model.parameters()).dtype)
    rows = shown.rows_together()
    return component_counts(trainer.model, trainer.guide, shown, num_draws, min_share=IN_USE, batch_size=rows)


def training_record(
    trainer: Trainer, plan: Plan, method: str | None, restarts: int, trials: list[Trial], units: Units | None
) -> dict:
    """How the training went, as JSON values, for the metadata of its skills.

    :param units: of the user, in which likelihoods are reported; ``None`` if the training was in these units
    """
    history, growth = trainer.history.to_dict(), trainer.growth
    capacity = [one.to_dict() for one in trials]
    if units is not None:
        before, final = (float(units.log_determinants(one).mean()) for one in (trainer.data, trainer.final_data))
        history["objective"] = [
            one + (final if trainer.config.in_final_phase(epoch) else before)
            for epoch, one in enumerate(history["objective"])
        ]
        if trainer.held_out is not None:
            judged = units.log_determinants(trainer.held_out)
            scores = history["judge_scores"]
            history["judge_scores"] = [one + more for one, more in zip(scores, judged.tolist())]
            for one in capacity:
                one["held_out"] += float(judged.sum()) / trainer.held_out.num_steps
    return {
        "method": {"name": method} | plan.config.to_dict(),
        "train": asdict(plan.train),
        "restarts": restarts,
        "history": history,
        "capacity": capacity,
        "growth": [] if growth is None else [event.to_dict() for event in growth.history],
        "updates": trainer.num_steps,
        "seconds": history["seconds"],
    }


def data_record(skills: Skills, data: Trajectories, test: Trajectories | None) -> dict:
    """What the data say about the skills, as JSON values, for their metadata.

    :param test: episodes that were kept for evaluation
    """
    likelihood = {"train": skills.log_likelihood(data)}
    if test is not None:
        likelihood["held_out"] = skills.log_likelihood(test)
    episodes = {"train": len(data), "held_out": 0 if test is None else len(test)}
    return {"episodes": episodes, "log_likelihood": likelihood}


def usage_record(trainer: Trainer, data: Trajectories, others: Sequence[Trainer], trust: Trust | None) -> dict:
    """The posterior over the number of options in use, as JSON values, for the metadata of skills.

    Its interval begins lower where the figures of ``trust`` do not speak against fewer.
    """
    found = options_in_use(trainer, data, others=others).to_dict()
    if trust is not None:
        low, high = found["interval"]
        found["interval"] = [min(low, trust.fewest), high]
    return {"options_in_use": found}


def trust_record(
    skills: Skills,
    trainer: Trainer,
    plan: Plan,
    data: Trajectories,
    test: Trajectories | None,
    others: Sequence[Trainer],
    callbacks: Callbacks = Callbacks(),
    inputs: Sequence[str] = (),
) -> Trust:
    """How far the skills can be trusted; trains single policies for comparison.

    :param inputs: warnings about the demonstrations
    """
    other_skills = [to_skills(one.model, one.guide, packed=data.packed) for one in others]
    judged = _judged(trainer, skills, data, test)
    single = one_policy(plan.config, plan.train, callbacks.members, trainer.workers)
    return measure(skills, data, judged, single, other_skills, plan.config.action_families, callbacks, inputs)


def _judged(trainer: Trainer, skills: Skills, data: Trajectories, test: Trajectories | None) -> Judged | None:
    """Scores of held-out episodes: of the test set, else of those that judged growth, before the final phase."""
    if test is not None:
        return Judged(test, skills.episode_log_likelihoods(test), data)
    scores, episodes = trainer.history.judge_scores, trainer.held_out
    if not scores or episodes is None:
        return None
    return Judged(episodes, torch.tensor(scores, dtype=torch.float64), trainer.data)
