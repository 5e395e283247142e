"""The support of discrete latents that are stored as one-hot rows, which continuous guides cannot approximate."""

from torch import Tensor
from torch.distributions import biject_to, constraints, transform_to

from pyro_options.errors import InputError


class OneHotRows(constraints.Constraint):
    """Matrices of zeros and ones with at most one 1 in each row, not counting the first ``flags`` columns.

    No transform leads there from real numbers, so autoguides, ``AutoDelta`` and HMC refuse such a site.

    :param kind: what the matrix is, for the message
    :param flags: leading columns of independent bits
    """

    is_discrete = True
    event_dim = 2

    def __init__(self, kind: str, flags: int = 0):
        self.kind, self.flags = kind, flags
        super().__init__()

    def check(self, value: Tensor) -> Tensor:
        bits = ((value == 0) | (value == 1)).all(-1)
        return (bits & (value[..., self.flags :].sum(-1) <= 1)).all(-1)

    def __repr__(self) -> str:
        return f"OneHotRows({self.kind!r}, flags={self.flags})"


def _refuse(constraint: OneHotRows):
    raise InputError(
        f"Expected continuous latent sites, as this kind of inference requires, but got {constraint.kind}, which is "
        "discrete. Sum it out with pyro_options.handlers.collapse(model), or use a guide of pyro_options.guides."
    )


biject_to.register(OneHotRows, _refuse)
transform_to.register(OneHotRows, _refuse)
