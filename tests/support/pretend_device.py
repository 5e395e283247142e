"""A device that is not the CPU and needs no hardware: real values, its own random state, launches and syncs counted.

Tensors of the device wrap a tensor of the CPU and report the device ``pretend:0``. Like CUDA it refuses to mix with
tensors of the CPU, except for numbers of no dimension; unlike fake tensors it computes, so that whole trainings, growth
and checkpoints run on it. A dispatched operation that is neither a view nor an allocation is one launch, whatever it
runs on real hardware; a kernel of the registry is one launch; reading a value, or copying one to the CPU, is a sync.
Copying from the CPU, which waits on CUDA as well unless memory is pinned, is an upload. ``PretendGraphs`` records
operations and repeats them on the same memory, as a CUDA graph does.
"""

import collections
import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from pyro_options.kernels.registry import DEVICES, KERNELS

NAME = "pretend"
_aten = torch.ops.aten

#: operations that read values on the CPU
_SYNCS = {
    _aten._local_scalar_dense.default,
    _aten.equal.default,
    _aten.nonzero.default,
    _aten.masked_select.default,
    _aten.is_nonzero.default,
    _aten.bincount.default,
    _aten._unique2.default,
    _aten.repeat_interleave.Tensor,
}
#: operations that only allocate or reinterpret
_FREE = {
    _aten.empty.memory_format,
    _aten.empty_like.default,
    _aten.empty_strided.default,
    _aten.new_empty.default,
    _aten.new_empty_strided.default,
    _aten._unsafe_view.default,
    _aten.detach.default,
    _aten.lift_fresh.default,
    _aten.set_.source_Tensor,
    _aten.resize_.default,
}


@dataclass
class Counts:
    """Launches, syncs and uploads of a block, by operation."""

    launches: collections.Counter = field(default_factory=collections.Counter)
    syncs: collections.Counter = field(default_factory=collections.Counter)
    uploads: collections.Counter = field(default_factory=collections.Counter)
    order: list[str] = field(default_factory=list)  # of launches

    @property
    def num_launches(self) -> int:
        return sum(self.launches.values())

    @property
    def num_syncs(self) -> int:
        return sum(self.syncs.values())

    @property
    def num_uploads(self) -> int:
        return sum(self.uploads.values())


class NotRecordable(AssertionError):
    """An operation that a CUDA graph cannot record."""


class _Tape:
    """Operations in order, and the values before it of memory that they write to."""

    def __init__(self):
        self.calls = []
        self.before = {}

    def writes(self, tensors):
        for x in tensors:
            self.before.setdefault((x.data_ptr(), x.shape, x.stride()), (x.detach(), x.clone()))

    def add(self, func, args, kwargs, result, random):
        args, kwargs, result = tree_map_only(Tensor, Tensor.detach, (args, kwargs, result))  # with their shapes as now
        old = [x for x in tree_flatten(result)[0] if isinstance(x, Tensor)]

        def again():
            with _drawing() if random else contextlib.nullcontext():
                new = [x for x in tree_flatten(func(*args, **kwargs))[0] if isinstance(x, Tensor)]
            for a, b in zip(old, new, strict=True):
                if a.data_ptr() != b.data_ptr():
                    a.copy_(b)

        self.calls.append(again)


_open: list[Counts] = []
_tapes: list[_Tape] = []
_generator = torch.Generator()


def _launch(name: str) -> None:
    for counts in _open:
        counts.launches[name] += 1
        counts.order.append(name)


def _sync(name: str) -> None:
    if _tapes:
        raise NotRecordable(f"{name} waits for the device")
    for counts in _open:
        counts.syncs[name] += 1


def _upload(name: str) -> None:
    if _tapes:
        raise NotRecordable(f"{name} copies from the CPU")
    for counts in _open:
        counts.uploads[name] += 1


class StrayTensor(AssertionError):
    """A tensor of the CPU met one of the device."""


class DeviceTensor(Tensor):
    """A tensor of the device."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor):
        new = Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
            requires_grad=False,
        )
        new.inner = inner
        return new

    def __repr__(self):
        return f"DeviceTensor({self.inner!r})"

    def as_subclass(self, cls):
        """For Pyro's provenance, which keeps this tensor beside it and calls operations on that one."""
        return self.inner.view_as(self.inner).as_subclass(cls)

    def data_ptr(self):
        return self.inner.data_ptr()

    def __deepcopy__(self, memo):
        copied = self.detach().clone()
        kept = torch.nn.Parameter(copied, self.requires_grad) if isinstance(self, torch.nn.Parameter) else copied
        return memo.setdefault(id(self), kept)

    def tolist(self):
        _sync("tolist")
        return self.inner.tolist()

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, value):
        Tensor.data.__set__(self, value)
        self.inner = value.inner

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return dispatch(func, args, kwargs or {})


def _on_device(device) -> bool:
    return device is not None and torch.device(device).type == NAME


def _check_devices(func, args) -> None:
    tensors = [x for x in args if isinstance(x, Tensor)]
    stray = [x for x in tensors if not isinstance(x, DeviceTensor) and x.dim() > 0]
    if stray and len(stray) < len(tensors):
        raise StrayTensor(f"{func} of the device and of the CPU: {[tuple(x.shape) for x in stray]}")


def _copy(func, args, kwargs):
    """Copies between devices: to the CPU they wait for the device."""
    if func is _aten._to_copy.default:
        source, device = args[0], kwargs.get("device", args[0].device)
        there = _on_device(device)
        inner = source.inner if isinstance(source, DeviceTensor) else source
        on_cpu = {**kwargs, "device": torch.device("cpu")}
        result = func(inner, **on_cpu)
        _launch(str(func))
        if isinstance(source, DeviceTensor) and not there:
            _sync("to the CPU")
        if there and not isinstance(source, DeviceTensor):
            _upload(str(func))
        for tape in _tapes:
            tape.add(func, (inner,), on_cpu, result, False)
        return DeviceTensor(result) if there else result
    target, source = args[:2]
    inner = [x.inner if isinstance(x, DeviceTensor) else x for x in (target, source)]
    for tape in _tapes:
        tape.writes(inner[:1])
    result = func(*inner, *args[2:], **kwargs)
    for tape in _tapes:
        tape.add(func, (*inner, *args[2:]), kwargs, result, False)
    _launch(str(func))
    if isinstance(target, DeviceTensor) and not isinstance(source, DeviceTensor):
        _upload(str(func))
    if isinstance(source, DeviceTensor) and not isinstance(target, DeviceTensor):
        _sync("to the CPU")
    return target


def dispatch(func, args, kwargs):
    """Runs an operation on the tensors of the CPU that those of the device wrap."""
    if func in (_aten._to_copy.default, _aten.copy_.default):
        return _copy(func, args, kwargs)
    flat, _ = tree_flatten((args, kwargs))
    _check_devices(func, flat)
    created = "device" in kwargs
    there = _on_device(kwargs["device"]) if created and kwargs["device"] is not None else True
    inner_args, inner_kwargs = tree_map_only(DeviceTensor, lambda x: x.inner, (args, kwargs))
    if created:
        inner_kwargs["device"] = torch.device("cpu")
    random = torch.Tag.nondeterministic_seeded in func.tags
    for tape in _tapes:
        tape.writes(_written(func, inner_args, inner_kwargs))
    with _drawing() if random else contextlib.nullcontext():
        result = func(*inner_args, **inner_kwargs)
    for tape in _tapes:
        if not func.is_view and torch.Tag.inplace_view not in func.tags:
            tape.add(func, inner_args, inner_kwargs, result, random)
    if func in _SYNCS or (func is _aten.index.Tensor and _has_mask(flat)):
        _sync(str(func))
    if not (func.is_view or func in _FREE or func in _SYNCS - {_aten.nonzero.default}):
        _launch(str(func))
    if not there:
        return result
    result = tree_map_only(Tensor, DeviceTensor, result)
    return return_and_correct_aliasing(func, args, kwargs, result)


def _written(func, args, kwargs) -> list[Tensor]:
    """The tensors that an operation writes to."""
    names = [one for one in func._schema.arguments if one.alias_info is not None and one.alias_info.is_write]
    given = dict(zip((one.name for one in func._schema.arguments), args)) | kwargs
    return [x for one in names for x in tree_flatten(given.get(one.name))[0] if isinstance(x, Tensor)]


def _has_mask(flat) -> bool:
    return any(isinstance(x, DeviceTensor) and x.dtype == torch.bool for x in flat[1:])


@contextlib.contextmanager
def _drawing() -> Iterator[None]:
    """The random state of the device in place of that of the CPU."""
    before = torch.get_rng_state()
    torch.set_rng_state(_generator.get_state())
    try:
        yield
    finally:
        _generator.set_state(torch.get_rng_state())
        torch.set_rng_state(before)


def _create(func, *args, **kwargs):
    return dispatch(func, args, kwargs)


class Module:
    """The module ``torch.accelerator`` of the device: the part that random states need."""

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def get_rng_state(device=0) -> Tensor:
        return _generator.get_state()

    @staticmethod
    def set_rng_state(state: Tensor, device=0) -> None:
        _generator.set_state(state)

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        _generator.manual_seed(seed)

    manual_seed = manual_seed_all

    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def get_amp_supported_dtype() -> list:
        return []


class _Kernels:
    """The compiled kernels of the CPU, as those of the device: one launch each."""

    def has(self, name, tensors):
        return KERNELS[name].module is not None

    def run(self, name, function, inputs, outputs, settings):
        _check_devices(function, [*inputs, *outputs])
        given = function, 0, [x.inner for x in inputs], [x.inner for x in outputs], settings
        KERNELS[name].run(*given)
        for tape in _tapes:
            tape.add(KERNELS[name].run, given, {}, None, False)
        _launch(f"{name}.{function}")


class PretendGraphs:
    """Records the operations of the device, and repeats them on the memory that they had, as CUDA graphs do.

    What Python computed between them is fixed. Recording itself changes no value, as if nothing had run.
    """

    def __init__(self):
        self.lengths = []  # operations of each recording

    def warm_up(self, device):
        return contextlib.nullcontext()

    def record(self, device, launch):
        tape, random = _Tape(), _generator.get_state()
        _tapes.append(tape)
        try:
            result = launch()
        finally:
            _tapes.remove(tape)
            for place, value in reversed(tape.before.values()):
                place.copy_(value)
            _generator.set_state(random)
        self.lengths.append(len(tape.calls))

        @torch.no_grad()
        def replay():
            for call in tape.calls:
                call()
            _launch("graph")

        return replay, result


_FACTORIES = (
    "empty.memory_format", "empty_strided", "full", "ones", "zeros", "eye", "eye.m", "rand", "randn", "randint",
    "randint.low", "arange", "arange.start", "arange.start_step", "linspace", "randperm", "scalar_tensor",
)  # fmt: skip


@functools.cache
def register() -> str:
    """Registers the device once in a process; returns its name."""
    _setup_privateuseone_for_python_backend(rename=NAME, backend_module=Module())
    library = torch.library.Library("aten", "IMPL")
    for name in _FACTORIES:
        packet, _, overload = name.partition(".")
        func = getattr(getattr(_aten, packet), overload or "default", None)
        if func is not None:
            library.impl(name, functools.partial(_create, func), "PrivateUse1")
    library.impl("_to_copy", functools.partial(_create, _aten._to_copy.default), "PrivateUse1")
    register._library = library
    DEVICES[NAME] = _Kernels()
    return NAME


@contextlib.contextmanager
def counting() -> Iterator[Counts]:
    """Counts launches and syncs of a block."""
    counts = Counts()
    _open.append(counts)
    try:
        yield counts
    finally:
        _open.remove(counts)
