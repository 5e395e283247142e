from .hidden_markov import HiddenMarkov
from .mixture import Mixture
from .root_finding import bisect
from .sticks import (
    LogitBeta,
    LogitKumaraswamy,
    StickVector,
    gem_sticks,
    kl_kumaraswamy_beta,
    log_stick_breaking,
    logit_sticks,
)
from .topics import TopicWords

__all__ = [
    "HiddenMarkov",
    "LogitBeta",
    "LogitKumaraswamy",
    "Mixture",
    "StickVector",
    "TopicWords",
    "bisect",
    "gem_sticks",
    "kl_kumaraswamy_beta",
    "log_stick_breaking",
    "logit_sticks",
]
