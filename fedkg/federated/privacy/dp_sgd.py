"""Gradients of minibatches under example-level differential privacy: clipped sample by sample, and
noised (DP-SGD, Abadi and others 2016).

Letters: C clients of a stack, B batch, H outputs, D parameters of a model, P of all its tensors
together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NoReturn, cast

import torch
from torch import Tensor
from typing_extensions import override

from fedkg.errors import JobError
from fedkg.federated.client.task_losses import CoxLoss
from fedkg.federated.privacy.update_noise import add_system_noise
from fedkg.federated.round_steps import KnownTerm, OutputTerm, SlopedTerm, Step, Term
from fedkg.federated.step_results import require_shape, require_values
from fedkg.kernels.training.random_normal_kernels import SITE
from fedkg.models.model_protocols import Gradient, OuterProduct, Params, SampleDifferentiatedModel
from fedkg.models.random_streams import Noise, fold, normal
from fedkg.privacy import Randomness

WRITTEN_OUT = 1 << 22
"""Numbers of samples' gradients that are written out at once, for models without a closed form."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedGradient:
    """``(sum_b clip(g_b) + clip * noise * N(0, 1)) / expected``, with g_b the gradient of sample
    b's loss by all parameters together.

    Each sample belongs to a minibatch by chance, and the sum is divided by the expected number of
    samples, so one sample changes the result by at most ``clip / expected``. Terms that read each
    sample separately are part of g_b; terms that read only the parameters are added afterwards
    without a change. With a closed form (`SampleDifferentiatedModel`), fedkg computes no gradient
    of a single sample; otherwise it treats samples as separate clients, in parts. The objective is
    not reported, because it has no noise.

    A sample with a non-finite gradient counts as zero: otherwise the update would be rejected,
    which reveals the sample.

    Args:
        clip: the largest norm of a sample's gradient after clipping.
        noise: the standard deviation of the noise, as a multiple of `clip`; 0 clips only.
        randomness: where noise and minibatches come from.
    """

    clip: float
    noise: float
    randomness: Randomness = "seeded"

    def __post_init__(self) -> None:
        if not self.clip > 0 or not self.noise >= 0:
            raise JobError(
                "`clip` must be above 0, and `noise` must not be negative",
                received=f"clip {self.clip}, noise {self.noise}",
            )

    @property
    def by_chance(self) -> bool:
        """See `Differentiation.by_chance`."""
        return True

    def __call__(
        self, step: Step, terms: tuple[Term, ...]
    ) -> tuple[Tensor, Mapping[str, Gradient]]:
        """See `Differentiation`."""
        if isinstance(step.loss, CoxLoss):
            raise JobError(
                "fedkg cannot clip the gradient of each sample: the Cox loss of a sample depends "
                "on all samples of its minibatch",
                help="protect clients (`unit: client`), or use another loss",
            )
        inside, outside = parted(terms)
        answered = tuple(term for term in inside if isinstance(term, OutputTerm))
        if (
            step.closed is not None
            and _knows_each(type(step.closed))
            and len(answered) == len(inside)
        ):
            gradient = self._closed(step, cast(SampleDifferentiatedModel, step.closed), answered)
        else:
            gradient = self._written_out(step, inside)
        noised = self._noised(step, gradient)
        for term in outside:
            for name, pull in _pull(term, step).items():
                noised[name] = noised[name] + pull
        return step.x.new_full((len(step.clients),), torch.nan), noised

    def _closed(
        self, step: Step, model: SampleDifferentiatedModel, terms: tuple[OutputTerm, ...]
    ) -> dict[str, Gradient]:
        output, saved = model.forward(step.params, step.x, step.noise)
        slope = step.loss.value_and_slope(output, step.y)[1]
        ones = slope.new_ones(slope.shape[:2])
        for term in terms:
            slope = slope.add_(term.by_output(replace(step, output=output, share=ones))[1])
        gradients = model.sample_gradients(step.params, saved, slope)
        squared_norms = gradients[0].squared_norms()
        for own in gradients[1:]:
            squared_norms = squared_norms.add_(own.squared_norms())
        if not math.isfinite(
            float(squared_norms.sum())
        ):  # such a sample would stay in the factored sums, whatever it counts
            return self._written_out(step, terms)
        factor = self._factor(step.share, squared_norms)
        return {
            name: value for own in gradients for name, value in own.weighted_sum(factor).items()
        }

    def _written_out(self, step: Step, terms: tuple[Term, ...]) -> dict[str, Gradient]:
        clients, batch = step.x.shape[:2]
        size = sum(value[0].numel() for value in step.params.values())
        part = max(1, min(batch, WRITTEN_OUT // max(1, clients * size)))
        total: dict[str, Gradient] = {}
        for first in range(0, batch, part):
            here = slice(first, min(batch, first + part))
            each = _sample_gradients(step, here, terms)
            squared_norms = torch.stack(
                [value.flatten(2).square().sum(2) for value in each.values()]
            ).sum(0)
            if not math.isfinite(float(squared_norms.sum())):
                wrong = ~torch.stack(
                    [value.flatten(2).isfinite().all(2) for value in each.values()]
                ).all(0)
                each = {
                    name: value.masked_fill(wrong.view(*wrong.shape, *[1] * (value.dim() - 2)), 0.0)
                    for name, value in each.items()
                }
                squared_norms = squared_norms.masked_fill(wrong, 0.0)
            factor = self._factor(
                None if step.share is None else step.share[:, here], squared_norms
            )
            for name, value in each.items():
                added = torch.bmm(factor.unsqueeze(1), value.flatten(2)).view(
                    clients, *value.shape[2:]
                )
                # these are written out, no factors
                total[name] = total[name] + added if first else added  # type: ignore[operator]
        return total

    def _factor(self, share: Tensor | None, squared_norms: Tensor) -> Tensor:
        """How much of each sample's gradient is kept, times what the sample counts, [C, B]."""
        if share is None:
            _refuse_plan()
        return squared_norms.rsqrt().mul_(self.clip).clamp_(max=1.0).mul_(share)

    def expected(self, samples: Tensor | None) -> Tensor:
        """The samples expected in a minibatch, [C].

        Raises JobError where minibatches are not drawn by chance.
        """
        if samples is None:
            _refuse_plan()
        return samples

    def scale(self, expected: Tensor) -> Tensor:
        """The standard deviation of the noise on each number of a sum, [C]."""
        return self.noise * self.clip / expected

    def _noised(self, step: Step, gradient: dict[str, Gradient]) -> dict[str, Tensor]:
        if step.noise is None:
            _refuse_plan()
        if not self.noise or self.randomness == "system":
            sums = {
                name: value.dense() if isinstance(value, OuterProduct) else value
                for name, value in gradient.items()
            }
            if not self.noise:
                return sums
            return add_system_noise(
                sums, self.noise, self.clip / self.expected(step.expected).double()
            )
        sizes = [value[0].numel() for value in step.params.values()]
        like = next(iter(step.params.values()))
        scale = self.scale(self.expected(step.expected)).to(like.dtype)
        draws = normal(step.noise.keys, SITE + step.noise.step, sum(sizes), scale)
        noised: dict[str, Tensor] = {}
        for (name, shape), own in zip(
            step.params.items(), torch.split(draws, sizes, 1), strict=True
        ):
            value, own = gradient[name], own.view(shape.shape)
            noised[name] = (
                torch.baddbmm(own, value.left.transpose(1, 2), value.right)
                if isinstance(value, OuterProduct)
                else own + value
            )
        return noised


def parted(terms: tuple[Term, ...]) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """The terms that read samples one by one, and those that read the parameters alone.

    Raises:
        JobError: naming a term that may couple samples: what one sample changes is then no longer
            its own gradient.
    """
    for term in terms:
        if isinstance(term, KnownTerm) and term.reads == "client":
            raise JobError(
                f"the term {type(term).__name__} uses numbers from all samples of a client, which"
                " clipping does not protect",
                help=(
                    "mine these numbers with fedkg.mining.private, which adds their privacy cost "
                    "to the ledger"
                ),
            )
        if not isinstance(term, KnownTerm):
            raise JobError(
                f"the term {type(term).__name__} does not state that it reads samples one by one",
                help=(
                    "set `reads` of the term to `samples` or `parameters` if that is true; clipping"
                    " cannot protect terms that combine samples"
                ),
            )
    known = [term for term in terms if isinstance(term, KnownTerm)]
    inside = tuple(term for term, own in zip(terms, known, strict=True) if own.reads == "samples")
    return inside, tuple(
        term for term, own in zip(terms, known, strict=True) if own.reads == "parameters"
    )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _NoiseOfSamples(Noise):
    """The randomness of a minibatch with its samples as clients: sample b of client c has the same
    values as in the minibatch.

    Attributes:
        own: the randomness of the minibatch, for C clients.
        first: the number of samples before the first one here.
        count: the number of samples of each client here.
    """

    own: Noise
    first: int
    count: int

    @override
    def keep_mask(self, site: int, shape: tuple[int, int, int], rate: float) -> Tensor:
        """See `Noise.keep_mask`; shape is [C * count, 1, H]."""
        clients = len(self.own.keys)
        whole = self.own.keep_mask(site, (clients, self.first + self.count, shape[2]), rate)
        return whole[:, self.first :].reshape(shape)


def _sample_gradients(step: Step, here: slice, terms: tuple[Term, ...]) -> dict[str, Tensor]:
    """The gradients of some samples of the minibatch, each [C, b, ...]."""
    clients, count = step.x.shape[0], here.stop - here.start

    def split_samples(value: Tensor) -> Tensor:
        """What samples have, [C, B, ...], as [C * b, 1, ...]."""
        return value[:, here].reshape(clients * count, 1, *value.shape[2:])

    def shown(value: Tensor) -> Tensor:
        """What clients have, [C, ...], for each of their samples, [C * b, ...]."""
        return (
            value.unsqueeze(1)
            .expand(clients, count, *value.shape[1:])
            .reshape(clients * count, *value.shape[1:])
        )

    noise = None
    if step.noise is not None:
        places = torch.arange(here.start, here.stop, device=step.noise.keys.device)
        keys = fold(step.noise.keys.unsqueeze(1), places).flatten()
        noise = _NoiseOfSamples(
            keys, step.noise.step, own=step.noise, first=here.start, count=count
        )
    with torch.enable_grad():
        leaves: Params = {
            name: shown(value.detach()).requires_grad_() for name, value in step.params.items()
        }
        one = replace(
            step,
            params=leaves,
            x=split_samples(step.x),
            y=split_samples(step.y),
            share=None,
            noise=noise,
            clients=shown(step.clients),
            start={name: shown(value) for name, value in step.start.items()},
            keys={name: split_samples(codes) for name, codes in step.keys.items()},
            closed=None,
        )
        output = one.model.apply(leaves, one.x, noise)
        value = one.mean(one.loss.value(output, one.y))
        one = replace(one, output=output)
        for term in terms:
            value = value + require_values(term, "value", term.value(one), value.shape)
        slopes = torch.autograd.grad(
            value.sum(), list(leaves.values()), allow_unused=True, materialize_grads=True
        )
    return {
        name: slope.view(clients, count, *slope.shape[1:])
        for name, slope in zip(leaves, slopes, strict=True)
    }


def _pull(term: Term, step: Step) -> Params:
    """The derivative of a term that reads the parameters alone."""
    if isinstance(term, SlopedTerm):
        return term.slope(step)
    with torch.enable_grad():
        leaves = {name: value.detach().requires_grad_() for name, value in step.params.items()}
        found = term.value(replace(step, params=leaves))
        value = require_shape(term, "value", found, step.x.shape[:1]).sum()
        slopes = torch.autograd.grad(
            value, list(leaves.values()), allow_unused=True, materialize_grads=True
        )
    return dict(zip(leaves, slopes, strict=True))


@lru_cache
def _knows_each(kind: type) -> bool:
    """Whether models of a type are `SampleDifferentiatedModel`; asked in every step, and a check
    against a protocol takes long.
    """
    return hasattr(kind, "sample_gradients")


def _refuse_plan() -> NoReturn:
    raise JobError(
        "the privacy of samples needs randomly drawn minibatches, and keys for the noise",
        help="train through `fedkg.federated.train`, which draws both",
    )
