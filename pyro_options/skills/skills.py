"""Skills: trained options that act, segment data, and can be saved."""

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import torch
from torch import Tensor, nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import InputError, check, choice
from pyro_options.growth.resizing import resize
from pyro_options.nn.state_network import NetworkLike
from pyro_options.options.policies import MixedPolicy

from . import format as file_format
from . import hub
from .acting import MODULES, ActingSkills, frozen
from .episodes import batches, check_scores
from .glossary import legend
from .imitation import Imitation
from .notebook import skills_html
from .option import Option
from .places import Places, find_places
from .segmentation import IN_USE, FlatPlaces, Segmentation
from .summary import Summary, option_names, options_before, summarize_flat, table
from .trust import Trust
from .validation import check_trajectories, checked_option

_PER_OPTION = ("option_names", "places")  # metadata with a value for each option


class Skills(ActingSkills):
    """K trained options: low-level policies π, termination functions ψ, and weights η of the high-level policy.

    :func:`~pyro_options.skills.to_skills` makes them from a trained model, :meth:`load` from a file. The arguments are
    copied; :meth:`only`, :meth:`used` and :meth:`to` return new skills.

    :param policy: π, a policy of :mod:`pyro_options.options`
    :param termination: ψ
    :param log_weights: log η, ``(K,)``; the weights may sum to less than 1, the rest belongs to options beyond the
        truncation
    :param packed: whether observations are bytes that hold eight bits each, see
        :class:`~pyro_options.data.Trajectories`; unpacked bits are accepted as well
    :param segments: CompILE's model of segment lengths; :meth:`segment` and :meth:`log_likelihood` then sum over
        segments, and ψ is only used to run skills in an environment
    :param state_weights: dependence of the weights on the state, ``None`` if there is none
    :param log_rows: log probabilities of the next option after each option, ``(K, K)``; η is then for the first option
    :param max_duration: steps after which an option must end, ``None`` for no limit
    :param summary: statistics on the demonstrations that the skills were trained on
    :param action_names: names of discrete actions, or of the dimensions of other actions, for tables and figures
    :param metadata: how the skills were made; JSON values
    """

    def imitation(self) -> Imitation:
        """All options combined into one policy that imitates the demonstrator, see :class:`Imitation`."""
        return Imitation(self)

    def log_likelihood(self, trajectories: Trajectories, batch_size: int = 256) -> float:
        """Exact log-likelihood of the actions given the states, in nats per step."""
        return float(self.episode_log_likelihoods(trajectories, batch_size).sum()) / trajectories.num_steps

    @torch.no_grad()
    def episode_log_likelihoods(self, trajectories: Trajectories, batch_size: int = 256) -> Tensor:
        """Exact log-likelihood of the actions of each episode given its states, ``(N,)`` in nats."""
        check_trajectories(trajectories)
        found = torch.zeros(len(trajectories), dtype=torch.float64)
        for index, _, path, emission, nats in batches(self, trajectories, batch_size):
            scores = path.log_marginal(emission) + nats
            check_scores(scores, index)
            found[index] = scores.double().cpu()
        return found

    @torch.no_grad()
    def segment(self, trajectories: Trajectories, method: str = "viterbi", batch_size: int = 256) -> Segmentation:
        """Segments episodes into options.

        :param method: ``viterbi`` for the most probable path, ``posterior`` for the option with the highest marginal
            posterior at each step
        """
        choice(method, "method", ("viterbi", "posterior"))
        check_trajectories(trajectories)
        lengths, steps = trajectories.lengths.cpu(), trajectories.num_steps
        places, dtype = FlatPlaces(lengths), self.log_weights.dtype
        options, switches = torch.zeros(steps, dtype=torch.long), torch.zeros(steps, dtype=dtype)
        scores = torch.zeros(len(lengths), dtype=dtype)
        for index, batch, path, emission, nats in batches(self, trajectories, batch_size):
            posterior = path.posterior(emission)
            check_scores(posterior.log_marginal, index)
            best = path.viterbi(emission)[0] if method == "viterbi" else posterior.options.argmax(-1)
            at, mask = places.of(index, batch.mask.shape[1])
            options[at[mask]] = best.cpu()[mask]
            switches[at[mask]] = posterior.switches.cpu()[mask]
            scores[index] = (posterior.log_marginal + nats).cpu()
        about = self.num_options, trajectories.state_steps.width, trajectories.episode_names
        return Segmentation.from_flat(options, switches, lengths, scores, *about)

    @torch.no_grad()
    def summarize(self, trajectories: Trajectories, segmentation: Segmentation | None = None) -> Summary:
        """Usage, segment lengths, termination rates and actions of each option on these demonstrations."""
        check_trajectories(trajectories)
        segmentation = self.segment(trajectories) if segmentation is None else segmentation
        before, places = options_before(segmentation), segmentation.places
        rates = torch.zeros(len(before))
        for index, batch, *_ in batches(self, trajectories, 256):
            at, mask = places.of(index, batch.mask.shape[1])
            logits = self.termination(batch.states).cpu().gather(-1, before[at].unsqueeze(-1)).squeeze(-1)
            rates[at[mask]] = torch.sigmoid(logits).float()[mask]
        actions = (self._encode(trajectories, part) for part in trajectories.given_actions().chunks())
        return summarize_flat(segmentation, actions, rates)

    def _encode(self, trajectories: Trajectories, actions: Tensor) -> Tensor:
        """Some of these actions ``(steps, …)`` in the columns of ``summary.actions``, ``(steps, out)``."""
        if isinstance(self.policy, MixedPolicy):
            return self.policy.layout.encode(actions.cpu(), self.log_weights.cpu()).float()
        # a negative pad drops actions that never occur
        missing = self.action_dim - trajectories.action_dim if self.discrete else 0
        return nn.functional.pad(trajectories.encode(actions).float().cpu(), (0, missing))

    def describe(self, trajectories: Trajectories | None = None) -> str:
        """A table with a line for each option, where options start and stop, trust, and what the columns mean.

        :param trajectories: demonstrations for the statistics, by default those that the skills were trained on
        """
        segmentation = None if trajectories is None else self.segment(trajectories)
        summary = self.summary if trajectories is None else self.summarize(trajectories, segmentation)
        if summary is None:
            raise InputError("Expected demonstrations to describe the options on but got none. Pass trajectories.")
        layout = self.policy.layout if isinstance(self.policy, MixedPolicy) else None
        parts = [table(summary, self.log_weights.cpu(), self.discrete, self.action_names, layout, self._given_names())]
        places = self.places
        if trajectories is not None and segmentation is not None:
            places = find_places(segmentation, trajectories, trajectories.state_names or self.state_names)
        told = [f"option {k} {line}" for k, one in enumerate(places or ()) for line in one.describe()]
        parts.append("\n".join(told))
        if self.trust is not None and trajectories is None:
            parts.append(self.trust.describe())
        return "\n\n".join(part for part in (*parts, legend()) if part)

    @property
    def places(self) -> list[Places] | None:
        """In which states each option starts and stops in the training data; ``None`` if that was not measured."""
        found = self.metadata.get("places")
        return None if found is None else [Places.from_dict(one) for one in found]

    @property
    def trust(self) -> Trust | None:
        """How far the discovery of these skills can be trusted; ``None`` if that was not measured."""
        found = self.metadata.get("trust")
        return None if found is None else Trust.from_dict(found)

    def _given_names(self) -> list[str | None]:
        """The names that :meth:`rename` gave, ``None`` for the others."""
        return list(self.metadata.get("option_names") or [None] * self.num_options)

    @property
    def names(self) -> list[str]:
        """A short name for each option: as :meth:`rename` gave it, else its number and its most frequent action."""
        found = [f"option {k}" for k in range(self.num_options)]
        if self.summary is not None:
            found = option_names(self.summary, self.discrete, self.action_names)
        return [name if given is None else given for name, given in zip(found, self._given_names())]

    def rename(self, names: Mapping[int, str]) -> "Skills":
        """New skills in which some options have names of their own, for tables, reports and figures.

        :param names: option -> name
        """
        given = self._given_names()
        for option, name in names.items():
            checked_option(option, np.zeros(self.state_dim), self.num_options)
            check(isinstance(name, str) and name.strip() != "", "a name that is text", repr(name))
            given[option] = name
        new = copy.copy(self)
        new.metadata = copy.deepcopy(self.metadata) | {"option_names": given}
        return new

    def __len__(self) -> int:
        return self.num_options

    @overload
    def __getitem__(self, option: int) -> Option: ...

    @overload
    def __getitem__(self, option: slice | Sequence[int]) -> "Skills": ...

    def __getitem__(self, option):
        """One option, or with a slice or a list :meth:`only` these."""
        if isinstance(option, slice):
            return self.only(range(self.num_options)[option])
        if isinstance(option, int | np.integer):
            return Option(self, range(self.num_options)[option])
        return self.only(option)

    def __iter__(self) -> Iterator[Option]:
        return (Option(self, k) for k in range(self.num_options))

    def _repr_html_(self) -> str:
        return skills_html(self)

    @property
    def state_names(self) -> tuple[str, ...] | None:
        """Names of the entries of a state (bytes if packed) in the demonstrations, ``None`` if they had none."""
        found = self.metadata.get("state_names")
        return None if found is None else tuple(found)

    @property
    def used_options(self) -> int:
        """Number of options that cover at least 1 % of the steps that the skills were trained on."""
        return len(self._used(IN_USE))

    def _used(self, min_share: float) -> list[int]:
        if self.summary is None:
            raise InputError("Expected skills that know their usage but got no summary. Pass one to Skills.")
        order = self.summary.usage.argsort(descending=True, stable=True).tolist()
        return [k for k in order if self.summary.usage[k] >= min_share]

    def only(self, options: Sequence[int]) -> "Skills":
        """New skills with these options, in this order; the weight of the others is redistributed in proportion."""
        new = copy.copy(self)  # without caches
        for name in MODULES:
            setattr(new, name, copy.deepcopy(getattr(self, name)))
        resize([module for name in MODULES if (module := getattr(new, name)) is not None], list(options))
        index = torch.tensor(list(options), device=self.device)
        new.log_weights, new.num_options = self.log_weights[index], len(index)
        if len(index) < self.num_options:
            new.log_weights += torch.logsumexp(self.log_weights, 0) - torch.logsumexp(new.log_weights, 0)
        if self.log_rows is not None:
            rows = self.log_rows[index]
            kept = rows[:, index]
            if len(index) < self.num_options:
                kept = kept + torch.logsumexp(rows, -1, keepdim=True) - torch.logsumexp(kept, -1, keepdim=True)
            new.log_rows = kept
        new.summary = None if self.summary is None else self.summary.select(index.cpu())
        new.metadata, new.rng = copy.deepcopy(self.metadata), np.random.default_rng(0)
        for name in _PER_OPTION:
            if new.metadata.get(name) is not None:
                new.metadata[name] = [new.metadata[name][k] for k in index.tolist()]
        return new

    def used(self, min_share: float = IN_USE) -> "Skills":
        """New skills with the options that cover at least ``min_share`` of the training steps, the most used first."""
        check(0 <= min_share <= 1, "min_share in [0, 1]", min_share)
        used = self._used(min_share)
        check(
            len(used) >= 1, f"an option that covers {min_share:.4g} of the steps", "none", "Pass a smaller min_share."
        )
        return self.only(used)

    def to(self, device: torch.device | str) -> "Skills":
        """The same skills on another device, for :meth:`segment` and :meth:`log_likelihood`; acting stays in numpy."""
        new = copy.copy(self)
        for name in MODULES:
            module = getattr(self, name)
            setattr(new, name, None if module is None else frozen(module).to(device))
        new.log_weights = self.log_weights.to(device)
        new.log_rows = None if self.log_rows is None else self.log_rows.to(device)
        return new

    def save(self, path: str | os.PathLike) -> None:
        """Writes a safetensors file with a JSON header, atomically."""
        file_format.write(path, self)

    @classmethod
    def load(cls, path: str | os.PathLike, network: NetworkLike | None = None) -> "Skills":
        """Reads a file that :meth:`save` wrote. Damaged files raise an error, and no file can execute code.

        :param network: what makes the state network, if the skills have one of your own: a function of the state shape
            that returns a module, a module, or an import path ``module:function``. The file has its weights
        """
        return cls(**file_format.read(path, network))

    def push_to_hub(self, repo_id: str, **settings: Any) -> str:
        """Uploads the skills to the Hugging Face Hub, with a model card from their metadata. Needs the extra ``hub``.

        :param repo_id: ``user/name`` of a repository, created if it does not exist
        :param settings: of ``ModelHubMixin.push_to_hub``, such as ``private=True`` or ``commit_message``
        :return: the address of the commit
        """
        return hub.push_to_hub(self, repo_id, **settings)

    def save_pretrained(self, folder: str | os.PathLike, **settings: Any) -> None:
        """Writes into a folder what :meth:`push_to_hub` uploads. Needs the extra ``hub``."""
        hub.save_pretrained(self, os.fspath(folder), **settings)

    @classmethod
    def from_pretrained(cls, name: str | os.PathLike, **settings: Any) -> "Skills":
        """Loads skills from a repository of the Hugging Face Hub, or from a folder. Needs the extra ``hub``.

        :param name: ``user/name``, or a folder that :meth:`save_pretrained` wrote
        :param settings: of ``ModelHubMixin.from_pretrained``, such as ``revision`` or ``local_files_only=True``
        """
        return hub.from_pretrained(os.fspath(name), **settings)

    def __repr__(self) -> str:
        family = "mixed" if isinstance(self.policy, MixedPolicy) else "continuous"
        kind = f"{self.action_dim} {'discrete actions' if self.discrete else f'{family} action dimensions'}"
        states = f"{self.state_dim} packed bits" if self.packed else f"{self.state_dim} numbers"
        return f"Skills({self.num_options} options, states of {states}, {kind})"
