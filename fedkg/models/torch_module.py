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

from fedkg._internal.user_code import describe_lack_of_memory
from fedkg.errors import FedkgError, JobError
from fedkg.models.layers import broadcast_samples
from fedkg.models.model_protocols import Params, match_parameters
from fedkg.models.random_streams import Noise, fold, keep_mask

_KEY: ContextVar[Tensor] = ContextVar("key of the current client and step")
_VALID: ContextVar[Tensor | None] = ContextVar("which samples are no padding")
_OBSERVED: ContextVar[dict[str, Tensor]] = ContextVar("running statistics after the minibatch")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TorchModule:
    """A PyTorch module as a model: the result of `build`, from a batch [B, ...] to outputs [B, H].

    Parameters start as the module initialises them after ``torch.manual_seed(seed)``. Dropout
    layers (``nn.Dropout``) are replaced by layers with counter-based noise per client and step, so
    every executor gets the same noise. Layers of batch normalisation are replaced by layers that
    ignore padding; their running means and variances are parameters without a gradient, which
    follow each minibatch of a client and are aggregated like the others. A minibatch of one value
    per feature does not change them. Other buffers must stay constant. fedkg tries the module once
    on two samples of zeros. If torch cannot vectorise it over clients (for example torch's
    recurrent layers), clients run one after the other.

    Args:
        build: creates the module; a class, or a function without arguments.
        sample: shape of one sample, such as (5,) or (1, 28, 28).
        head: prefixes of the parameters that each client may personalise; the rest is the body (see
            `PartitionedModel`).

    Attributes:
        vectorised: whether all clients run in one call.
        statistics: names of running means and variances among the parameters.

    Raises:
        JobError: `build` does not return a module, or the module has no parameters, has running
            statistics of another layer than batch normalisation, draws noise outside dropout
            layers, changes a buffer, does not return [B, H], or has no parameter in its head.

    Examples:
        >>> model = TorchModule(build=lambda: torch.nn.Linear(3, 2), sample=(3,))
        >>> [tuple(p.shape) for p in model.init(seed=0).values()]
        [(2, 3), (2,)]
    """

    build: Callable[[], nn.Module]
    sample: tuple[int, ...]
    head: tuple[str, ...] = ()
    vectorised: bool = field(init=False, default=False)
    statistics: tuple[str, ...] = field(init=False, default=())
    _used: nn.Module = field(init=False)
    _trained: nn.Module = field(init=False)

    def __post_init__(self) -> None:
        module = self._built(0)
        if not dict(module.named_parameters()):
            raise JobError(
                f"the module {type(module).__name__} has no parameters to train",
                help="use a module with at least one torch.nn.Parameter",
            )
        for name, layer in module.named_modules():
            _reject_statistics(name, layer)
        module = _with_tracked_norms(module)
        object.__setattr__(
            self,
            "statistics",
            tuple(
                f"{name}.{part}" if name else part
                for name, layer in module.named_modules()
                if isinstance(layer, _TrackedNorm)
                for part in ("running_mean", "running_var")
            ),
        )
        match_parameters(self.head, _variables(module, self.statistics))
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
        names = list(_variables(self._used, self.statistics))
        own = match_parameters(self.head, names)
        return {"body": tuple(name for name in names if name not in own), "head": self.head}

    def init(self, seed: int, dtype: torch.dtype = torch.float32) -> Params:
        """See `Model.init`; the same on every machine if PyTorch's generator is."""
        return {
            name: value.to(dtype)
            for name, value in _variables(self._built(seed), self.statistics).items()
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
        valid = None if noise is None else noise.valid
        if self.vectorised:
            found = vmap(partial(_called, module), (0, 0, 0, None if valid is None else 0))(
                dict(params), keys, x, valid
            )
        else:
            each = [
                _called(
                    module,
                    {name: value[i] for name, value in params.items()},
                    keys[i],
                    x[i],
                    None if valid is None else valid[i],
                )
                for i in range(clients)
            ]
            found = (
                torch.stack([answer for answer, _ in each]),
                {name: torch.stack([one[name] for _, one in each]) for name in each[0][1]},
            )
        answer: Tensor = found[0]
        if noise is not None:
            for name, value in found[1].items():
                noise.observed.setdefault(name, value.detach())
        return answer

    def _built(self, seed: int) -> nn.Module:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            try:
                module = self.build()
            except FedkgError:
                raise
            except Exception as error:  # whatever the user's function raises
                place = "the function or class that makes the model"
                raise describe_lack_of_memory(error, place) or JobError(
                    f"{place} raises an error",
                    received=_first_line(error),
                    help="correct the function or class, or the options of the model",
                ) from error
        if not isinstance(module, nn.Module):
            raise JobError(
                "the function or class that makes the model does not return a module",
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
    except Exception as error:  # whatever the user's file raises when Python imports it
        raise JobError(
            f"the model {path} cannot be imported",
            expected="package.file:Name",
            received=_first_line(error),
            help="install the package, correct the name after the colon, or correct the file until "
            "Python imports it",
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


class _TrackedNorm(nn.Module):
    """Batch normalisation that leaves out padding and reports its running statistics after the
    minibatch instead of changing them.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, name: str, layer: nn.modules.batchnorm._BatchNorm) -> None:
        super().__init__()
        assert layer.momentum is not None, "rejected before"
        self._name, self._eps, self._momentum = name, layer.eps, layer.momentum
        self.weight, self.bias = layer.weight, layer.bias
        for part in ("running_mean", "running_var"):
            self.register_buffer(part, getattr(layer, part))

    @override
    def forward(self, x: Tensor) -> Tensor:
        spread = (1, -1, *[1] * (x.dim() - 2))
        own = x.to(self.running_mean.dtype)
        if not self.training:
            # An aggregate in a short data type may round a small variance to below 0.
            mean, variance = self.running_mean, self.running_var.clamp(min=0)
        else:
            mean, variance = self._observe(own)
        scaled = (own - mean.view(spread)) * (variance + self._eps).rsqrt().view(spread)
        if self.weight is not None:
            scaled = scaled * self.weight.view(spread) + self.bias.view(spread)
        return scaled.to(x.dtype)

    def _observe(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The mean and the variance of the valid samples."""
        dims, valid = [0, *range(2, x.dim())], _VALID.get()
        counts = x.new_ones(len(x)) if valid is None else valid.to(x.dtype)
        weight = counts.view(-1, *[1] * (x.dim() - 1))
        count = counts.sum() * (x[0, 0].numel())
        mean = (x * weight).sum(dims) / count
        centred = (x - mean.view(1, -1, *[1] * (x.dim() - 2))) * weight
        squares = centred.square().sum(dims)
        enough, old = count > 1, (self.running_mean, self.running_var)
        new = (mean, squares / (count - 1).clamp(min=1))
        _OBSERVED.get().update(
            {
                f"{self._name}{part}": torch.where(
                    enough, torch.lerp(before, after.detach(), self._momentum), before
                )
                for part, before, after in zip(
                    ("running_mean", "running_var"), old, new, strict=True
                )
            }
        )
        return mean, squares / count


def _reject_statistics(name: str, layer: nn.Module) -> None:
    """Raise JobError for a layer with statistics that fedkg cannot track."""
    tracks = getattr(layer, "track_running_stats", None)
    where = f"layer {name or 'itself'} ({type(layer).__name__}) of the module"
    if type(layer) in (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d):
        assert isinstance(layer, nn.modules.batchnorm._BatchNorm)
        if not tracks:
            raise _buffer_error(f"{where} answers by the other samples of a batch in use, too")
        if layer.momentum is None:
            raise _buffer_error(f"{where} averages all minibatches (`momentum=None`)")
    elif tracks:
        raise _buffer_error(f"{where} keeps running statistics")


def _with_tracked_norms(module: nn.Module) -> nn.Module:
    """The module with its layers of batch normalisation replaced."""
    for name, layer in list(module.named_modules()):
        if isinstance(layer, nn.modules.batchnorm._BatchNorm) and layer.track_running_stats:
            tracked = _TrackedNorm(f"{name}." if name else "", layer)
            if not name:
                return tracked
            module.set_submodule(name, tracked)
    return module


def _variables(module: nn.Module, statistics: tuple[str, ...]) -> Params:
    """The parameters, and the running statistics after them."""
    buffers = dict(module.named_buffers())
    found = {name: value.detach() for name, value in module.named_parameters()}
    return found | {name: buffers[name].detach().clone() for name in statistics}


def _called(
    module: nn.Module,
    params: dict[str, Tensor],
    key: Tensor,
    x: Tensor,
    valid: Tensor | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """The answer of the module, and its running statistics after these samples in training."""
    observed: dict[str, Tensor] = {}
    key_token, valid_token = _KEY.set(key), _VALID.set(valid)
    observed_token = _OBSERVED.set(observed)
    try:
        answer: Tensor = functional_call(module, params, (x,))
    finally:
        _KEY.reset(key_token)
        _VALID.reset(valid_token)
        _OBSERVED.reset(observed_token)
    return answer, observed


def _move_buffers(module: nn.Module, like: Tensor) -> None:
    """Move buffers (which are constant) to the device and floating dtype of the parameters."""
    for layer in module.modules():
        for name, value in layer.named_buffers(recurse=False):
            wanted = value.to(like.device, like.dtype if value.is_floating_point() else value.dtype)
            if wanted is not value:
                setattr(layer, name, wanted)


def _first_line(error: Exception) -> str:
    """The type of a user's error and the first line of its message."""
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


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
            answer, _ = _called(module, params, torch.zeros((), dtype=torch.int64), x)
        except FedkgError:
            raise
        except Exception as error:  # whatever the user's module raises
            place = f"the module for a batch of two samples, {list(x.shape)},"
            raise describe_lack_of_memory(error, place) or JobError(
                f"the module cannot read a batch of two samples, {list(x.shape)}",
                received=_first_line(error),
                help="correct the module for inputs of this shape, or the features of the data",
            ) from error
        drawn = not torch.equal(state, torch.get_rng_state())
    if not isinstance(answer, Tensor) or answer.dim() != 2 or answer.shape[0] != 2:
        shape = str(list(answer.shape)) if isinstance(answer, Tensor) else type(answer).__name__
        raise JobError(
            "the module does not return one row of outputs for each sample",
            expected="shape [2, outputs] for two samples",
            received=shape,
            help="return one tensor from `forward`, such as outputs.flatten(1)",
        )
    for name, value in module.named_buffers():
        if not torch.equal(before[name], value):
            raise _buffer_error(f"buffer {name} of the module changes in training")
    if drawn:
        raise JobError(
            "the module draws random numbers in training, so different executors "
            "would give different models",
            help="draw them with nn.Dropout layers, which fedkg supports",
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
            answer, _ = vmap(partial(_called, module))(params, torch.zeros(2, dtype=torch.int64), x)
            torch.autograd.grad(answer.sum(), list(params.values()), allow_unused=True)
    except (RuntimeError, UserWarning):
        return False
    return True


def _buffer_error(what: str) -> JobError:
    return JobError(
        what,
        expected="constant buffers, or running statistics of BatchNorm1d, 2d or 3d with a momentum",
        help="use GroupNorm or LayerNorm, which need no statistics of other rows",
    )
