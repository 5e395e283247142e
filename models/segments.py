"""CompILE: episodes as sequences of segments, each with a skill."""

import pyro
import torch
from pyro.nn import PyroModule
from torch import Tensor, nn

from pyro_options.data.trajectories import Trajectories
from pyro_options.errors import check
from pyro_options.segments.actions import SegmentedActions, SegmentSkills
from pyro_options.segments.boundaries import PoissonBoundaries
from pyro_options.segments.path import SegmentPath
from pyro_options.segments.poisson_segments import PoissonSegments

from .gem import high_level_prior


class CompILE(PyroModule):
    r"""Segments of Poisson length with a skill each: CompILE, or with a stick-breaking prior its nonparametric version.

    .. math:: p(\eta)\prod_i \prod_j p(b^{(i)}_j\mid b^{(i)}_{j-1})\,\eta(h^{(i)}_j)
        \prod_t \pi_{h_{j(t)}}(a_t^{(i)}\mid s_t^{(i)})

    Sites: ``sticks`` (unless ``prior="uniform"``), ``boundaries`` of event shape ``(M - 1, T + 1)``, ``skills`` of
    event shape ``(M, K)``, and ``actions``, the last three in the plate ``episodes``. Episodes without actions are
    generated from the K skills, with weights that are renormalized to sum to one.

    :param policy: low-level policies; ``policy(states, mask=mask)`` is a distribution over actions with K components
    :param num_segments: M; an episode may have fewer, since segments may be empty
    :param segment_length: λ, the mean length of a segment
    :param prior: ``uniform`` (CompILE), ``gem``, ``truncated``, or a module that takes K and returns log η
    :param alpha: initial concentration of a stick-breaking prior
    :param max_duration: steps after which the skills of this model terminate in an environment; by default they
        terminate at random, after λ steps on average

    References: Kipf et al. (2019); Villecroze et al. (2022), section 4.3.
    """

    #: latent sites that can be summed out: latent site -> the site that absorbs it
    latents = {"boundaries": "skills", "skills": "actions"}

    def __init__(
        self,
        policy: nn.Module,
        num_segments: int = 7,
        segment_length: float = 10.0,
        prior: str | PyroModule = "uniform",
        alpha: float = 1.0,
        max_duration: int | None = None,
    ):
        super().__init__()
        check(num_segments >= 2, "at least 2 segments", num_segments)
        check(segment_length > 0, "a mean length of segments > 0", segment_length)
        check(max_duration is None or max_duration >= 1, "max_duration >= 1", max_duration)
        self.policy, self.max_duration = policy, max_duration
        self.segments = PoissonSegments(num_segments, segment_length)
        self.high_level = high_level_prior(prior, alpha) if isinstance(prior, str) else prior
        self.prior = prior if isinstance(prior, str) else type(prior).__name__

    @property
    def num_options(self) -> int:
        """K."""
        return self.policy.num_options

    def boundaries(self, episodes: Trajectories) -> PoissonBoundaries:
        """The prior over boundaries in these episodes."""
        segments = self.segments
        return PoissonBoundaries(segments.length, segments.count, episodes.mask, episodes.states.dtype)

    def path(self, log_weights: Tensor, episodes: Trajectories) -> SegmentPath:
        """The joint prior over segments and skills in these episodes."""
        return SegmentPath(log_weights, self.boundaries(episodes))

    def forward(self, episodes: Trajectories, log_weights: Tensor | None = None):
        """Runs the generative process; with ``log_weights`` given, η is not sampled."""
        policy, mask = self.policy, episodes.mask  # once: each access of a PyroModule registers all its parameters
        if log_weights is None:
            log_weights = self.high_level(policy.num_options)  # (K,)
        likelihood = policy(episodes.states, mask=mask)
        index = torch.arange(len(episodes), device=episodes.states.device)
        with pyro.plate("episodes", episodes.population, subsample=index):
            # has_rsample: the guide handles the gradient of its samples, as in OptionHMM.
            boundaries = pyro.sample("boundaries", self.boundaries(episodes).has_rsample_(True))
            drawn = SegmentSkills(log_weights, self.segments.count, mask.shape[:1])
            drawn = drawn if episodes.actions is not None else drawn.normalized()
            skills = pyro.sample("skills", drawn.has_rsample_(True))
            return pyro.sample("actions", SegmentedActions(likelihood, boundaries, skills, mask), obs=episodes.actions)
