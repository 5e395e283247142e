"""What growth asks of a model, a guide, their distributions and their layers, as runtime-checkable protocols.

Implement these, whatever your model is, and every rule, birth and removal works on it:

- :class:`ComponentLikelihood`: the distribution of the observed site. Required.
- :class:`GrowableLayer`: every layer with one part per component, in the model and in the guide; derive from
  :class:`~pyro_options.growth.Growable` and most of it is there. Required.
- :class:`WeightsPosterior`: the part of the guide that knows how probable components are. Moves that look at data need
  its mean.
- :class:`GrowableGuide`: the guide, for trainers that put model and guide together themselves.
- :class:`Marginalizable` and :class:`CollapsibleModel`: latent sites that can be summed out.
- :class:`Masked`, :class:`Weighable`, :class:`ComponentSampler`: optional; they make things right where data are
  padded, faster, or better where data points are not independent.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from torch import Tensor

from pyro_options.errors import check


@runtime_checkable
class ComponentLikelihood(Protocol):
    """The distribution of an observed site whose data points K components explain."""

    def log_prob(self, value: Any) -> Tensor:
        """Log-likelihood of each row, ``(rows,)``, with whatever can be summed out summed out."""

    def component_log_prob(self, value: Any) -> Tensor:
        """log p_k(x) of each data point under each component, ``(..., K)``."""

    def responsibilities(self, value: Any) -> Tensor:
        """p(component = k | data) of each data point, ``(..., K)``; zeros where a point is masked out."""


@runtime_checkable
class Masked(Protocol):
    """A distribution over padded rows."""

    step_mask: Tensor | None  # data points in use, ``(...)``; ``None`` if all are


@runtime_checkable
class Weighable(Protocol):
    """An observed distribution that can be evaluated again under other weights without running the model."""

    def weighed(self, value: Any) -> Callable[[Tensor], Tensor] | None:
        """Log weights ``(K,)`` to log-likelihoods ``(rows,)``, everything else computed here, once.

        Expectation maximization over the weights calls it many times with the components as they are. ``None`` where
        the weights of the model are not all that varies: the model is then run again for every call.
        """


@runtime_checkable
class ComponentSampler(Protocol):
    """An observed distribution that draws the components of dependent data points jointly."""

    def sample_components(self, value: Any) -> Tensor:
        """The component of each data point, integers ``(...)``, from their joint posterior."""


@runtime_checkable
class Marginalizable(Protocol):
    """The distribution of a latent site that can be summed out of the site that absorbs it."""

    def marginalize(self, likelihood: Any) -> Any:
        """The distribution of the absorbing site with this latent summed out.

        :param likelihood: the distribution of that site, built by the model from this distribution in place of a value
        """


@runtime_checkable
class CollapsibleModel(Protocol):
    """A model that says which of its latent sites can be summed out."""

    latents: Mapping[str, str]  # latent site -> the site that absorbs it


@runtime_checkable
class Tempered(Protocol):
    """A relaxed distribution whose temperature a handler may set."""

    temperature: float


@runtime_checkable
class WeightsPosterior(Protocol):
    """The variational posterior over the weights of K components, a module."""

    num_components: int  # K

    def mean_log_weights(self) -> Tensor:
        """log E[η], ``(K,)``; may leave mass to components not yet born."""


@runtime_checkable
class GrowableGuide(Protocol):
    """A guide: its posterior over weights, and the latent sites that it leaves to be summed out."""

    weights: WeightsPosterior
    collapses: Mapping[str, str]  # latent site -> the site that absorbs it; empty if the guide draws all of them


@runtime_checkable
class GrowableLayer(Protocol):
    """A module with K interchangeable components along one axis of some of its tensors."""

    component_axes: Mapping[str, int]  # parameter or buffer name -> axis that counts components
    shared: tuple[str, ...]  # tensors that all components have in common and that a move may change
    num_components: int  # K

    def fresh(self, name: str, count: int) -> Tensor:
        """Initial values of ``count`` new components of tensor ``name``."""

    def rearranged(self, keep: Tensor) -> dict[str, Tensor]:
        """The tensors of the components ``keep``, in that order."""

    def inherit(self, child: int, parent: int, noise: float) -> None:
        """Turns a fresh component into a copy of another, plus ``noise`` times what it was."""

    def blend(self, heir: int, other: int, share: float) -> None:
        """Turns a component into ``share`` of itself and the rest of another."""

    def reweight(self, log_weights: Tensor) -> None:
        """Takes new relative weights; layers without weights do nothing."""


def fulfills(value: Any, contract: type, role: str) -> Any:
    """``value``, or an error that names what it lacks of a contract.

    :param role: what ``value`` is, for the message
    """
    if not isinstance(value, contract):
        names = [*getattr(contract, "__annotations__", {}), *(n for n in vars(contract) if not n.startswith("_"))]
        missing = [name for name in dict.fromkeys(names) if not hasattr(value, name)]
        fix = f"See pyro_options.growth.{contract.__name__} for what each of them does."
        got = f"{type(value).__name__} without {', '.join(missing)}"
        check(False, f"{role} to be a {contract.__name__}", got, fix)
    return value


def mask_of(distribution: Any) -> Tensor | None:
    """Data points in use, if the distribution has a mask."""
    return distribution.step_mask if isinstance(distribution, Masked) else None
