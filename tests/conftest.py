import pyro
import pytest


@pytest.fixture(autouse=True)
def fresh_start():
    """The same random numbers and an empty param store for every test."""
    pyro.set_rng_seed(0)
    pyro.clear_param_store()
