"""The file format of skills: safetensors, with a JSON header that describes the networks. No pickle."""

import os
from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pyro_options.errors import InputError, check, choice
from pyro_options.nn.standardized_inputs import StandardizedInputs
from pyro_options.nn.state_network import NETWORKS, NetworkLike, StateNetwork, make_network
from pyro_options.nn.varying_inputs import VaryingInputs
from pyro_options.options.families import family_from_dict, family_to_dict
from pyro_options.options.policies import CategoricalPolicy, GaussianPolicy, MixedPolicy, OptionPolicy, Termination
from pyro_options.options.state_weights import StateWeights
from pyro_options.persistence.storage import Format, reading
from pyro_options.segments.poisson_segments import PoissonSegments

from .numpy_policy import layers_of
from .summary import Summary

if TYPE_CHECKING:
    from .skills import Skills

FORMAT = Format("pyro_options.Skills", 2, "Skills.save")
_SUMMARY = tuple(field.name for field in fields(Summary))
_UNITS = ("center", "unit", "low", "high")  # of a GaussianPolicy; a MixedPolicy has its bounds in the families
_LAYERS = {"standardized": StandardizedInputs, "varying": VaryingInputs, "linear": nn.Linear, "relu": nn.ReLU}


def _network(module: nn.Module, name: str) -> tuple[list[str] | dict[str, Any], dict[str, Tensor]]:
    """Layer types of a state network, or what a network of the user's own is made of, and its tensors."""
    if isinstance(module.network, StateNetwork):
        own = module.network
        about = {"name": own.name, "state_shape": list(own.state_shape), "is_bytes": own.is_bytes}
        return about, {f"{name}.network.{key}": t for key, t in own.network.state_dict().items()}
    layers = layers_of(module.network)
    if layers is None:
        raise InputError(
            f"Expected a state network of known layers to save but got {module.network}. Build it with hidden=… or "
            "network=…, or save its state_dict yourself."
        )
    kinds = [next(kind for kind, type_ in _LAYERS.items() if isinstance(layer, type_)) for layer in layers]
    tensors = {f"{name}.{i}.{key}": t for i, layer in enumerate(layers) for key, t in layer.state_dict().items()}
    return kinds, tensors


def write(path: str | os.PathLike, skills: "Skills") -> None:
    """Writes skills to ``path``."""
    tensors, networks = {"log_weights": skills.log_weights}, {}
    mixed = isinstance(skills.policy, MixedPolicy)
    for name, module in (("policy", skills.policy), ("termination", skills.termination)):
        networks[name], parts = _network(module, name)
        tensors |= parts | {f"{name}.{key}": t for key, t in module.heads.state_dict().items()}
    if not skills.discrete:
        tensors["policy.log_scale"] = skills.policy.log_scale()
        tensors |= {f"policy.{name}": getattr(skills.policy, name) for name in _UNITS[: 2 if mixed else 4]}
    if skills.state_weights is not None:
        tensors |= {f"state_weights.{key}": t for key, t in skills.state_weights.state_dict().items()}
    if skills.log_rows is not None:
        tensors["log_rows"] = skills.log_rows
    if skills.summary is not None:
        tensors |= {f"summary.{name}": value for name, value in skills.summary.tensors().items()}
    config = {
        "networks": networks,
        "discrete": skills.discrete,
        "state_dim": skills.state_dim,
        "packed": skills.packed,
        "max_duration": skills.max_duration,
        "segments": None if skills.segments is None else asdict(skills.segments),
        "min_log_scale": None if skills.discrete else skills.policy.min_log_scale,
        "families": [family_to_dict(family) for family in skills.policy.families] if mixed else None,
        "integers": mixed and skills.policy.layout.integers,
        "initial_logit": skills.termination.initial_logit,
        "action_names": skills.action_names,
        "metadata": skills.metadata,
    }
    FORMAT.write(path, config, tensors)


def read(path: str | os.PathLike, network: NetworkLike | None = None) -> dict[str, Any]:
    """Constructor arguments of :class:`Skills` from a file.

    :param network: makes a state network of the user's own
    """
    config, tensors = FORMAT.read(path)
    with reading(path, FORMAT.writer):
        return _arguments(config, tensors, network)


def _arguments(config: Mapping[str, Any], tensors: dict[str, Tensor], own: NetworkLike | None) -> dict[str, Any]:
    left = dict(tensors)  # tensors not used yet; any that remain at the end are an error
    state_dim = int(config["state_dim"])
    network, weight = _rebuild("policy", config, left, own), left["policy.weight"]
    check(weight.dim() == 3, "weights of shape (K, out, features)", tuple(weight.shape))
    K, out = weight.shape[:2]
    policy = _policy(config, left, K, out, network)
    _fill(policy.heads, {key: left.pop(f"policy.{key}") for key in ("weight", "bias")})
    network = _rebuild("termination", config, left, own)
    termination = Termination(state_dim, K, network=network, initial_logit=float(config["initial_logit"]))
    _fill(termination.heads, {key: left.pop(f"termination.{key}") for key in ("weight", "bias")})
    log_weights, log_rows = left.pop("log_weights"), left.pop("log_rows", None)
    state_weights = None
    if "state_weights.weight" in left:
        state_weights = StateWeights(state_dim, K)
        _fill(state_weights, {key: left.pop(f"state_weights.{key}") for key in ("weight", "bias")})
    summary = None
    if "summary.usage" in left:
        summary = Summary(*(left.pop(f"summary.{name}") for name in _SUMMARY))
        sizes = {name: (K, out) if name == "actions" else (K,) for name in _SUMMARY}
        for name, value in summary.tensors().items():
            check(tuple(value.shape) == sizes[name], f"summary.{name} of shape {sizes[name]}", tuple(value.shape))
    check(not left, "no other tensors", sorted(left))
    return {
        "policy": policy,
        "termination": termination,
        "log_weights": log_weights,
        "packed": bool(config["packed"]),
        "max_duration": config["max_duration"],
        "segments": None if config.get("segments") is None else PoissonSegments(**config["segments"]),
        "state_weights": state_weights,
        "log_rows": log_rows,
        "summary": summary,
        "action_names": config["action_names"],
        "metadata": config["metadata"],
    }


def _policy(config: Mapping[str, Any], left: dict[str, Tensor], K: int, out: int, network: nn.Module) -> OptionPolicy:
    """The policy without its heads; its tensors are removed from ``left``."""
    state_dim, families = int(config["state_dim"]), config.get("families")
    if config["discrete"]:
        return CategoricalPolicy(state_dim, K, out, network=network)
    units = {name: left.pop(f"policy.{name}") for name in _UNITS[: 4 if families is None else 2]}
    given = {"network": network, "min_log_scale": float(config["min_log_scale"])} | units
    policy: GaussianPolicy | MixedPolicy
    if families is None:
        policy = GaussianPolicy(state_dim, K, out, **given)
    else:
        made = [family_from_dict(family) for family in families]
        policy = MixedPolicy(state_dim, K, made, integers=bool(config["integers"]), **given)
    _fill(policy.log_scale, {"value": left.pop("policy.log_scale")})
    return policy


def _own_network(name: str, about: Mapping[str, Any], left: dict[str, Tensor], own: NetworkLike | None) -> StateNetwork:
    """A network of the user's own with the weights of the file, which names it but never decides what is imported."""
    known = about["name"] if about["name"] in NETWORKS else None
    maker = known if own is None else own
    if maker is None:
        fix = "Pass the function that makes it, or its import path: Skills.load(path, network=…)."
        raise InputError(f"Expected the state network of these skills, {about['name']}, but got none. {fix}")
    made = make_network(maker, [int(size) for size in about["state_shape"]], bool(about["is_bytes"]))
    prefix = f"{name}.network."
    state = {key.removeprefix(prefix): left.pop(key) for key in list(left) if key.startswith(prefix)}
    made.to(next((value.dtype for value in state.values() if value.is_floating_point()), torch.get_default_dtype()))
    try:
        made.network.load_state_dict(state)
    except RuntimeError as error:
        raise InputError(f"Expected a network with the weights of {about['name']} but got another: {error}") from error
    return made


def _rebuild(
    name: str, config: Mapping[str, Any], left: dict[str, Tensor], own: NetworkLike | None = None
) -> nn.Module:
    """Rebuilds a state network; its tensors are removed from ``left``."""
    described = config["networks"][name]
    if isinstance(described, Mapping):
        return _own_network(name, described, left, own)
    layers: list[nn.Module] = []
    for i, kind in enumerate(described):
        choice(kind, "layer", _LAYERS)
        if kind == "varying":
            layers.append(VaryingInputs(left.pop(f"{name}.{i}.index"), int(config["state_dim"])))
        elif kind == "standardized":
            index, center, scale = (left.pop(f"{name}.{i}.{key}") for key in ("index", "center", "scale"))
            kind = left[f"{name}.weight"].dtype
            layers.append(StandardizedInputs(index, int(config["state_dim"]), center, scale, kind))
        elif kind == "linear":
            values = {key: left.pop(f"{name}.{i}.{key}") for key in ("weight", "bias")}
            layer = nn.Linear(values["weight"].shape[1], values["weight"].shape[0], dtype=values["weight"].dtype)
            _fill(layer, values)
            layers.append(layer)
        else:
            layers.append(nn.ReLU())
    return layers[0] if len(layers) == 1 and isinstance(layers[0], VaryingInputs) else nn.Sequential(*layers)


def _fill(module: nn.Module, values: Mapping[str, Tensor]) -> None:
    """Replaces parameters by tensors of the same shape and any floating-point type."""
    for key, value in values.items():
        expected = tuple(getattr(module, key).shape)
        check(tuple(value.shape) == expected, f"{key} of shape {expected}", tuple(value.shape))
        check(value.is_floating_point(), f"{key} as floating point numbers", value.dtype)
        setattr(module, key, nn.Parameter(value))
