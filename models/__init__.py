"""Generative models: every p."""

from .high_level import GEM, Uniform, high_level_prior
from .mixture import DPMixture
from .option_hmm import OptionHMM

__all__ = ["GEM", "DPMixture", "OptionHMM", "Uniform", "high_level_prior"]
