"""Reinforcement learning with skills: Stable-Baselines3 for semi-Markov decision processes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
