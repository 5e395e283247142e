"""Generative models: every p."""

from .high_level import GEM, Uniform, high_level_prior
from .option_hmm import OptionHMM

__all__ = ["GEM", "OptionHMM", "Uniform", "high_level_prior"]
