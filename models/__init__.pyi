from .gem import GEM, Uniform, high_level_prior
from .hdp import HDP
from .hdp_topics import HDPTopics
from .infinite_hmm import InfiniteHMM
from .mixture import DPMixture
from .option_hmm import OptionHMM
from .regressions import DPRegressions, LinearExperts
from .segments import CompILE
from .state_option_hmm import StateOptionHMM
from .sticky_option_hmm import StickyOptionHMM

__all__ = [
    "GEM",
    "HDP",
    "CompILE",
    "DPMixture",
    "DPRegressions",
    "HDPTopics",
    "InfiniteHMM",
    "LinearExperts",
    "OptionHMM",
    "StateOptionHMM",
    "StickyOptionHMM",
    "Uniform",
    "high_level_prior",
]
