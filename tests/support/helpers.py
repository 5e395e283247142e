"""Former location of :mod:`support.paths`, :mod:`support.episodes` and :mod:`support.option_models`."""

from support.episodes import make_episodes
from support.option_models import make_model
from support.paths import mask_of, path_goodness_of_fit, random_episodes

__all__ = ["make_episodes", "make_model", "mask_of", "path_goodness_of_fit", "random_episodes"]
