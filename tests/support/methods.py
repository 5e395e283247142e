"""Methods by name: which of them grow, required settings of the others, and a quick training."""

from pyro_options.discovery import METHODS

#: methods that must be told how many options there are, and those with a single one
FIXED_K, SINGLE_OPTION = ("ddo", "compile"), ("bc", "bc-deep")
#: methods whose start finds the options, and which are not trained unless epochs are given
UNTRAINED = ("options-hard",)
GROWING = [name for name in METHODS if name not in FIXED_K + SINGLE_OPTION]

#: settings of a training that takes a fraction of a second
QUICK = {"epochs": 3, "batch_size": 8, "progress": False, "device": "cpu"}


def required_settings(method: str) -> dict:
    """What a method must be told besides its name."""
    return {"num_options": 3} if method in FIXED_K else {}
