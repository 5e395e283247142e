"""Twins of the compiled kernels for CUDA, in Triton (``pip install "pyro-options[cuda]"`` if torch does not bring it).

Every module mirrors one of :mod:`pyro_options.kernels`: the same arguments, as tuples of inputs, outputs and settings,
and one launch a call, with a program per episode that loops over its steps. ``accepts(*tensors)`` says whether a
program can hold tensors of these sizes; plain torch runs otherwise.
"""
