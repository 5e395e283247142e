"""CompILE's posterior over boundaries and skills."""

import pyro
import torch
from pyro.nn import PyroModule
from torch import Tensor

from pyro_options.data.trajectories import Trajectories
from pyro_options.segments.boundaries import segment_masks
from pyro_options.segments.encoder import SegmentEncoder
from pyro_options.segments.relaxed import RelaxedBoundaries, RelaxedSkills


class RelaxedSegments(PyroModule):
    """Posterior over the weights, and over the segments of each episode by an encoder that sees it and the weights.

    :param weights: posterior over the weights: :class:`UniformWeights` for CompILE, a :class:`GrowableGEM` for its
        nonparametric version
    :param encoder: gives the logits of boundaries and skills
    :param num_segments: M, as in the model
    :param temperature: of the relaxation, unless :func:`~pyro_options.handlers.temper` sets another
    """

    collapses: dict[str, str] = {}

    def __init__(self, weights: PyroModule, encoder: SegmentEncoder, num_segments: int, temperature: float = 1.0):
        super().__init__()
        self.weights, self.encoder, self.num_segments, self.temperature = weights, encoder, num_segments, temperature

    def _boundaries(self, encoder, embedded: Tensor, mask: Tensor, log_weights: Tensor) -> RelaxedBoundaries:
        decoder = encoder.boundaries(embedded, mask, log_weights)
        return RelaxedBoundaries(decoder, self.num_segments, mask, self.temperature)

    def forward(self, episodes: Trajectories) -> None:
        log_weights, mask = self.weights(), episodes.mask
        encoder = self.encoder  # every look at a submodule registers its parameters with Pyro: look once
        embedded = encoder.embedding(episodes.states, episodes.encoded_actions())
        index = torch.arange(len(episodes), device=embedded.device)
        with pyro.plate("episodes", episodes.population, subsample=index):
            boundaries = pyro.sample("boundaries", self._boundaries(encoder, embedded, mask, log_weights))
            logits = encoder.skills(embedded, segment_masks(boundaries, mask), log_weights)
            pyro.sample("skills", RelaxedSkills(logits, self.temperature))

    @torch.no_grad()
    def segment(self, episodes: Trajectories) -> tuple[Tensor, Tensor]:
        """The most probable boundaries, one after the other, and skills, at the mean weights.

        :returns: the skill of each step ``(N, T)`` and where segments begin ``(N, T)``, the first step included
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
