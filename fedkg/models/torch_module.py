"""Any PyTorch module as a federated model: stacked parameters, and a forward pass vectorised over
clients.

Letters: C clients of a stack, B batch, H outputs.
"""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from typing_extensions import override

from fedkg.errors import JobError
from fedkg.models.layers import broadcast_samples
from fedkg.models.model_protocols import Params, match_parameters
from fedkg.models.random_streams import Noise, fold, keep_mask

_KEY: ContextVar[Tensor] = ContextVar("key of the current client and step")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TorchModule:
    """A PyTorch module as a model: the result of `build`, from a batch [B, ...] to outputs [B, H].

    Parameters start as the module initialises them after ``torch.manual_seed(seed)``. Dropout
    layers (``nn.Dropout``) are replaced by layers with counter-based noise per client and step, so
    every executor gets the same noise. Buffers must stay constant: running statistics cannot be
    stacked, averaged or resumed. fedkg tries the module once on two samples of zeros. If torch
    cannot vectorise it over clients (for example torch's recurrent layers), clients run one after
    the other.

    Args:
        build: creates the module; a class, or a function without arguments.
        sample: shape of one sample, such as (5,) or (1, 28, 28).
        head: prefixes of the parameters that each client may personalise; the rest is the body (see
            `PartitionedModel`).

    Attributes:
        vectorised: whether all clients run in one call.

    Raises:
        JobError: `build` does not return a module, or the module has no parameters, has running
            statistics, draws noise outside dropout layers, changes a buffer, does not return [B,
            H], or has no parameter in its head.

    Examples:
        >>> model = TorchModule(build=lambda: torch.nn.Linear(3, 2), sample=(3,))
        >>> [tuple(p.shape) for p in model.init(seed=0).values()]
        [(2, 3), (2,)]
    """

    build: Callable[[], nn.Module]
    sample: tuple[int, ...]
    head: tuple[str, ...] = ()
    vectorised: bool = field(init=False, default=False)
    _used: nn.Module = field(init=False)
    _trained: nn.Module = field(init=False)

    def __post_init__(self) -> None:
        module = self._built(0)
        if not dict(module.named_parameters()):
            raise JobError(f"the module {type(module).__name__} has no parameters to train")
        for name, layer in module.named_modules():
            if getattr(layer, "track_running_stats", False):
                raise _buffer_error(
                    f"layer {name or 'itself'} ({type(layer).__name__}) of the module keeps "
                    "running statistics"
                )
        match_parameters(self.head, dict(module.named_parameters()))
        object.__setattr__(self, "_used", copy.deepcopy(module).eval())
        object.__setattr__(self, "_trained", _counted(module.train()))
        _tried(self._trained, self.sample)
        object.__setattr__(self, "vectorised", _mappable(self._trained, self.sample))

    @override
    def __reduce__(self) -> tuple[Callable[[], TorchModule], tuple[()]]:
        """Another process builds the module itself: buffers here may be on a device it lacks."""
        return partial(TorchModule, build=self.build, sample=self.sample, head=self.head), ()

    @property
    def parts(self) -> Mapping[str, tuple[str, ...]]:
        """See `PartitionedModel`."""
        names = [name for name, _ in self._used.named_parameters()]
        own = match_parameters(self.head, names)
        return {"body": tuple(name for name in names if name not in own), "head": self.head}

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """See `Model.init`; the same on every machine if PyTorch's generator is."""
        return {
            name: value.detach().to(dtype) for name, value in self._built(seed).named_parameters()
        }

    def apply(self, params: Mapping[str, Tensor], x: Tensor, noise: Noise | None = None) -> Tensor:
        """See `Model.apply`; x [C, B, ...], or [B, ...] shared."""
        first = next(iter(params.values()))
        clients = first.shape[0]
        x = broadcast_samples(x, clients, len(self.sample))
        if noise is None:
            module, keys = self._used, torch.zeros(clients, dtype=torch.int64, device=x.device)
        else:
            module, keys = self._trained, fold(noise.keys, noise.step)
        _move_buffers(module, first)
        call = partial(_called, module)
        if self.vectorised:
            return vmap(call)(dict(params), keys, x)
        return torch.stack(
            [
                call({name: value[i] for name, value in params.items()}, keys[i], x[i])
                for i in range(clients)
            ]
        )

    def _built(self, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            module = self.build()
        if not isinstance(module, nn.Module):
            raise JobError(
                "`build` of the model does not return a module",
                expected="a torch.nn.Module",
                received=type(module).__name__,
            )
        return module


def load_torch_module(
    path: str, sample: tuple[int, ...], head: tuple[str, ...] = (), **options: object
) -> TorchModule:
    """The module named ``package.file:Name``, called with `options`, as a model.

    Raises:
        JobError: the name does not exist, or see `TorchModule`.
    """
    place, _, name = path.partition(":")
    try:
        made = getattr(importlib.import_module(place), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise JobError(
            f"the model cannot be imported: {error}", expected="package.file:Name", received=path
        ) from error
    return TorchModule(build=partial(made, **options), sample=sample, head=head)


class _CountedDropout(nn.Module):
    """Dropout with noise that depends only on the client's key, the step and the layer's number in
    the module.
    """

    def __init__(self, rate: float, site: int) -> None:
        super().__init__()
        self._rate, self._site = rate, site

    @override
    def forward(self, x: Tensor) -> Tensor:
        kept = keep_mask(fold(_KEY.get(), self._site), x.numel(), self._rate).view(x.shape)
        return x * (kept.to(x.dtype) * (1.0 / (1.0 - self._rate)))


def _counted(module: nn.Module) -> nn.Module:
    """The module with its dropout layers replaced, in the order of `named_modules`."""
    found = [
        (name, layer.p)
        for name, layer in module.named_modules()
        if isinstance(layer, nn.Dropout) and layer.p < 1
    ]
    for site, (name, rate) in enumerate(found):
        if not name:
            return _CountedDropout(rate, site)
        module.set_submodule(name, _CountedDropout(rate, site))
    return module


def _called(module: nn.Module, params: dict[str, Tensor], key: Tensor, x: Tensor) -> Tensor:
    token = _KEY.set(key)
    try:
        answer: Tensor = functional_call(module, params, (x,))
    finally:
        _KEY.reset(token)
    return answer


def _move_buffers(module: nn.Module, like: Tensor) -> None:
    """Move buffers (which are constant) to the device and floating dtype of the parameters."""
    for layer in module.modules():
        for name, value in layer.named_buffers(recurse=False):
            wanted = value.to(like.device, like.dtype if value.is_floating_point() else value.dtype)
            if wanted is not value:
                setattr(layer, name, wanted)


def _tried(module: nn.Module, sample: tuple[int, ...]) -> None:
    """Raise JobError if the module, in training, returns, draws or changes something that it must
    not.
    """
    params = {name: value.detach() for name, value in module.named_parameters()}
    x = torch.zeros(2, *sample, dtype=next(iter(params.values())).dtype)
    before = {name: value.clone() for name, value in module.named_buffers()}
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        state = torch.get_rng_state()
        try:
            answer = _called(module, params, torch.zeros((), dtype=torch.int64), x)
        except (RuntimeError, TypeError, ValueError, IndexError) as error:
            raise JobError(
                f"the module cannot read a batch: {error}", received=f"inputs {list(x.shape)}"
            ) from error
        drawn = not torch.equal(state, torch.get_rng_state())
    if not isinstance(answer, Tensor) or answer.dim() != 2 or answer.shape[0] != 2:
        shape = str(list(answer.shape)) if isinstance(answer, Tensor) else type(answer).__name__
        raise JobError(
            "the module does not return one row of outputs for each sample",
            expected="[2, outputs]",
            received=shape,
        )
    for name, value in module.named_buffers():
        if not torch.equal(before[name], value):
            raise _buffer_error(f"buffer {name} of the module changes in training")
    if drawn:
        raise JobError(
            "the module draws random numbers in training, which would differ between executors",
            help="use nn.Dropout layers",
        )


def _mappable(module: nn.Module, sample: tuple[int, ...]) -> bool:
    """Whether torch can vectorise the module over clients, forward and backward."""
    params = {
        name: torch.stack([value.detach()] * 2).requires_grad_()
        for name, value in module.named_parameters()
    }
    first = next(iter(params.values()))
    x = torch.zeros(2, 2, *sample, dtype=first.dtype)
    try:
        with warnings.catch_warnings(), torch.enable_grad():
            # torch warns if it would run the clients one by one, which is slow.
            warnings.simplefilter("error")
            answer = vmap(partial(_called, module))(params, torch.zeros(2, dtype=torch.int64), x)
            torch.autograd.grad(answer.sum(), list(params.values()), allow_unused=True)
    except (RuntimeError, UserWarning):
        return False
    return True


def _buffer_error(what: str) -> JobError:
    return JobError(
        what,
        expected="a module with constant buffers: buffers can be neither stacked nor averaged",
        help="use GroupNorm or LayerNorm, which need no statistics of other rows",
    )
