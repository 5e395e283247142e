from .gem import GEM, Uniform, high_level_prior
from .mixture import DPMixture
from .option_hmm import OptionHMM
from .segments import CompILE
from .state_option_hmm import StateOptionHMM

__all__ = [
    "GEM",
    "CompILE",
    "DPMixture",
    "OptionHMM",
    "StateOptionHMM",
    "Uniform",
    "high_level_prior",
]
