"""CompILE's guide: relaxed boundaries and skills from an encoder."""

import pyro
import torch
from pyro.nn import PyroModule
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.segments.boundaries import segment_masks
from pyro_options.segments.encoder import SegmentEncoder
from pyro_options.segments.relaxed import RelaxedBoundaries, RelaxedSkills


class RelaxedSegments(PyroModule):
    r"""Posterior over the weights, and over the segments of each episode by an encoder.

    .. math:: q(\eta)\prod_i \prod_j q(b^{(i)}_j\mid b^{(i)}_{<j}, \eta, \xi^{(i)})
        \prod_j q(h^{(i)}_j\mid b^{(i)}, \eta, \xi^{(i)})

    Sites: those of ``weights``, ``boundaries`` of event shape ``(M - 1, T + 1)`` and ``skills`` of event shape
    ``(M, K)``, both in the plate ``episodes``.

    :param weights: :math:`q(\eta)`: :class:`UniformWeights` for CompILE, a :class:`GrowableGEM` for its nonparametric
        version
    :param encoder: logits of boundaries and skills
    :param num_segments: M, as in the model
    :param temperature: of the relaxation, unless :func:`~pyro_options.handlers.temper` sets another

    Reference: Kipf et al. (2019).
    """

    collapses: dict[str, str] = {}
    objective_is_bound = False  # segments are relaxed

    def __init__(self, weights: PyroModule, encoder: SegmentEncoder, num_segments: int, temperature: float = 1.0):
        super().__init__()
        self.weights, self.encoder, self.num_segments, self.temperature = weights, encoder, num_segments, temperature

    def _boundaries(self, encoder, embedded: Tensor, mask: Tensor, log_weights: Tensor) -> RelaxedBoundaries:
        decoder = encoder.boundaries(embedded, mask, log_weights)
        return RelaxedBoundaries(decoder, self.num_segments, mask, self.temperature)

    def forward(self, episodes: Trajectories) -> None:
        log_weights, mask = self.weights(), episodes.mask
        encoder = self.encoder  # once: each access of a PyroModule registers all its parameters
        embedded = encoder.embedding(episodes.states, episodes.encoded_actions())
        index = torch.arange(len(episodes), device=embedded.device)
        with pyro.plate("episodes", episodes.population, subsample=index):
            boundaries = pyro.sample("boundaries", self._boundaries(encoder, embedded, mask, log_weights))
            logits = encoder.skills(embedded, segment_masks(boundaries, mask), log_weights)
            pyro.sample("skills", RelaxedSkills(logits, self.temperature))

    @torch.no_grad()
    def segment(self, episodes: Trajectories) -> tuple[Tensor, Tensor]:
        """The most probable boundaries, chosen greedily, and skills, at the mean weights.

        :returns: the skill of each step ``(N, T)``, and whether a segment begins there ``(N, T)``
        """
        log_weights, mask = self.weights.mean_log_weights(), episodes.mask
        embedded = self.encoder.embedding(episodes.states, episodes.encoded_actions())
        boundaries = self._boundaries(self.encoder, embedded, mask, log_weights).best()
        masks = segment_masks(boundaries, torch.ones_like(mask))  # (N, M, T)
        skills = self.encoder.skills(embedded, masks * mask.unsqueeze(-2), log_weights).argmax(-1)
        segment = masks.argmax(-2)
        starts = torch.ones_like(mask)
        starts[:, 1:] = segment[:, 1:] != segment[:, :-1]
        return skills.gather(-1, segment), starts & mask
