"""The penalty of a batch as one number, in memory that does not grow with the number of
constraints.

Letters: B batch, R rows of a bank, K (row, sample) pairs, N and N' input and output numbers read
per sample, D conditions, G rules; C parts of a batch with n samples each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, ParamSpec

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import pad
from typing_extensions import override

from fedkg._internal.compile_exclusion import exclude_from_compile
from fedkg.constraints.batch_evaluation import BatchEvaluation
from fedkg.constraints.engine.bank_tensors import BankTensors
from fedkg.constraints.engine.penalty import late_scale
from fedkg.constraints.fused.bank_penalties import paid

P = ParamSpec("P")

LITTLE = 1 << 18
"""Conditions of rows times samples that are looked at plainly: a call for each bank takes longer.
"""


def _in_full(
    work: Callable[Concatenate[BatchEvaluation, P], Tensor],
) -> Callable[Concatenate[BatchEvaluation, P], Tensor]:
    """Products in the type of their factors also inside `torch.autocast`: in half precision numbers
    of samples are rounded.
    """

    @wraps(work)
    def call(of: BatchEvaluation, /, *args: P.args, **kwargs: P.kwargs) -> Tensor:
        kind = of.inputs.device.type
        if not torch.amp.is_autocast_available(kind) or not torch.is_autocast_enabled(kind):
            return work(of, *args, **kwargs)
        with torch.autocast(kind, enabled=False):
            return work(of, *args, **kwargs)

    return call


class _WithGradient(torch.autograd.Function):
    """A number with a precomputed gradient."""

    @staticmethod
    @override
    def forward(
        ctx: Any,
        value: Tensor,
        inputs: Tensor,
        outputs: Tensor,
        of_inputs: Tensor | None,
        of_outputs: Tensor | None,
    ) -> Tensor:
        ctx.save_for_backward(of_inputs, of_outputs)
        return value.clone()

    @staticmethod
    @once_differentiable
    @override
    def backward(ctx: Any, gradient: Tensor) -> Any:
        of_inputs, of_outputs = ctx.saved_tensors
        scaled = [None if known is None else gradient * known for known in (of_inputs, of_outputs)]
        return None, *scaled, None, None


@exclude_from_compile
@_in_full
def total_penalty(of: BatchEvaluation) -> Tensor:
    """The sum over rules of their weight times the weighted mean of their penalties over all
    (constraint, sample) pairs that apply.

    The gradient is taken chunk by chunk together with the value, so that no intermediate result
    outlives its chunk; it can be differentiated once. Inside `torch.func` transforms, where that is
    not possible, the usual graph is built.
    """
    weight, shares = _weight_and_shares(of)
    known, done = paid(of, shares, weight[0], lambda banks: _sum_parts(of, banks, shares, weight))
    rest = [None if at in done else share for at, share in enumerate(shares)]
    total = _by_graph(of, rest)
    return total if known is None else total + known.sum()


def _by_graph(of: BatchEvaluation, shares: Sequence[Tensor | None]) -> Tensor:
    """The penalty of the banks that have shares, by the engine."""
    if not any(share is not None for share in shares):
        return of.inputs.new_zeros(())
    differentiable = torch.is_grad_enabled() and (
        of.inputs.requires_grad or of.outputs.requires_grad
    )
    whole = of.is_symbolic
    try:
        inputs, outputs = (
            part.detach().requires_grad_(differentiable and part.requires_grad)
            for part in (of.inputs, of.outputs)
        )
    except RuntimeError:  # torch.func transforms refuse requires_grad_
        whole = True
    if whole:
        return sum(
            (_chunk(of, *piece, of.inputs, of.outputs) for piece in _pieces(of, shares)),
            of.inputs.new_zeros(()),
        )
    value = of.inputs.new_zeros(())
    gradients: list[Tensor | None] = [
        torch.zeros_like(part) if part.requires_grad else None for part in (inputs, outputs)
    ]
    leaves = [part for part in (inputs, outputs) if part.requires_grad]
    pending: list[Tensor] = []
    size = 0
    for bank, rows, share in _pieces(of, shares):
        part = _chunk(of, bank, rows, share, inputs, outputs)
        value = value + part.detach()
        if part.requires_grad:
            pending.append(part)
            size += of.numbers(bank, rows)
        if size >= of.chunk:
            _collect(pending, leaves, gradients)
            pending, size = [], 0
    _collect(pending, leaves, gradients)
    if not differentiable:
        return value
    given = of.inputs, of.outputs, *gradients
    # torch declares `apply` without types
    known: Tensor = _WithGradient.apply(value, *given)  # type: ignore[no-untyped-call]
    return known


@exclude_from_compile
@_in_full
def penalty_apart(of: BatchEvaluation, weight: Tensor) -> Tensor:
    """The total of `total_penalty` of each of C parts of the batch, separately, [C].

    Differentiable any number of times.

    Args:
        weight: of samples, [C, n]: the first n samples of the batch are the first part, and so on.
    """
    shares = _shares(of, weight)
    known, done = paid(
        of, shares, weight.flatten(), lambda banks: _sum_parts(of, banks, shares, weight)
    )
    value = _sum_parts(of, [at for at in range(len(of.banks)) if at not in done], shares, weight)
    return (value if known is None else value + known).view(weight.shape).sum(dim=1)


def _sum_parts(
    of: BatchEvaluation, banks: Sequence[int], shares: Sequence[Tensor | None], weight: Tensor
) -> Tensor:
    """What each sample adds to the penalty of its part by some banks (positions), [B], by the
    engine; weights as in `_shares`.
    """
    value = of.inputs.new_zeros(of.batch)
    for bank, rows, share in _pieces(
        of, [share if at in banks else None for at, share in enumerate(shares)]
    ):
        scale = late_scale(bank.skeleton, of.form)
        share = share if scale is None else share / bank.params[scale, rows].to(share.dtype)
        pairs = of.pairs(bank, rows)
        if pairs is None:
            missing = of.penalties(bank, rows, of.inputs, of.outputs, divided=scale is None)
            value = value + (missing * share.repeat_interleave(weight.shape[1], dim=1)).sum(dim=0)
        else:
            missing = of.paired_penalties(
                bank, rows, pairs, of.inputs, of.outputs, divided=scale is None
            )[:, 0]
            value = value.index_add(
                0, pairs.sample, missing * share[pairs.row, pairs.sample // max(1, weight.shape[1])]
            )
    return value * weight.flatten()


@_in_full
def penalty_parts(of: BatchEvaluation, group: Sequence[Tensor], groups: int) -> Tensor:
    """The total of `total_penalty` in parts, [G]: what the rows of each group add to it.

    Differentiable as often as one likes.

    Args:
        group: for each bank which of the G groups each of its rows is in, int64 [R].
    """
    parts = of.inputs.new_zeros(groups)
    for bank, own, share in zip(of.banks, group, _shares_apart(of, _weight(of)), strict=True):
        if share is None:
            continue
        sums = [parts[:0]]
        for rows in of.runs(bank):
            added, row = _added(
                of,
                bank,
                rows,
                torch.ones_like(share[:1]).expand(rows.stop - rows.start, 1),
                of.inputs,
                of.outputs,
            )
            sums.append(
                added
                if row is None
                else added.new_zeros(rows.stop - rows.start).index_add(0, row, added)
            )
        parts = parts.index_add(
            0, own, (bank.of_every(torch.cat(sums)) * share[:, 0]).to(parts.dtype)
        )
    return parts


def _collect(
    pending: Sequence[Tensor], leaves: Sequence[Tensor], gradients: Sequence[Tensor | None]
) -> None:
    """Add the gradients of some parts and let go of their graphs."""
    if pending:
        found = torch.autograd.grad(torch.stack(list(pending)).sum(), leaves, allow_unused=True)
        for gradient, more in zip(
            (known for known in gradients if known is not None), found, strict=True
        ):
            if more is not None:
                gradient += more


def _pieces(
    of: BatchEvaluation, shares: Sequence[Tensor | None]
) -> list[tuple[BankTensors, slice, Tensor]]:
    return [
        (bank, rows, share[rows])
        for bank, share in zip(of.banks, shares, strict=True)
        if share is not None
        for rows in of.runs(bank)
    ]


def _chunk(
    of: BatchEvaluation,
    bank: BankTensors,
    rows: slice,
    share: Tensor,
    inputs: Tensor,
    outputs: Tensor,
) -> Tensor:
    """What some rows of a bank add to the penalty."""
    return _added(of, bank, rows, share, inputs, outputs)[0].sum()


def _added(
    of: BatchEvaluation,
    bank: BankTensors,
    rows: slice,
    share: Tensor,
    inputs: Tensor,
    outputs: Tensor,
) -> tuple[Tensor, Tensor | None]:
    """What each of some rows of a bank adds to the penalty, [R], and None.

    Or each of their pairs, [K], and the rows of these.

    `share` [R, 1] is as `_shares` has it.
    """
    scale = late_scale(bank.skeleton, of.form)
    share = (
        share[:, 0] if scale is None else share[:, 0] / bank.params[scale, rows, 0].to(share.dtype)
    )
    weight = None if of.sample_weight is None else of.sample_weight.to(inputs.dtype)
    pairs = of.pairs(bank, rows)
    if pairs is None:
        once = of.single_pass.evaluate(bank, rows)[0] if of.single_pass.takes(bank) else None
        missing = (
            of.penalties(bank, rows, inputs, outputs, divided=scale is None)
            if once is None
            else once
        )
        return _over_samples(of, missing, weight) * share, None
    missing = of.paired_penalties(bank, rows, pairs, inputs, outputs, divided=scale is None)[:, 0]
    each = share.index_select(0, pairs.row)
    return (
        missing * (each if weight is None else each * weight.index_select(0, pairs.sample)),
        pairs.row,
    )


def _weight(of: BatchEvaluation) -> Tensor:
    """What each sample counts, [1, B]."""
    return (
        of.inputs.new_ones(1, of.batch)
        if of.sample_weight is None
        else of.sample_weight.to(of.inputs)[None]
    )


def _weight_and_shares(of: BatchEvaluation) -> tuple[Tensor, list[Tensor | None]]:
    """What each sample counts, [1, B], and `_shares`: the same for all batches of a shape where no
    verdict can be unknown.
    """
    if (
        of.structure is None
        or of.sample_weight is not None
        or not all(of.always_known(bank) for bank in of.banks)
    ):
        weight = _weight(of)
        return weight, _shares(of, weight)
    if of.banks not in of.structure.kept:
        with torch.inference_mode(mode=False):  # what is kept serves training too
            weight = _weight(of)
            of.structure.kept[of.banks] = weight, _shares(of, weight)
    found: tuple[Tensor, list[Tensor | None]] = of.structure.kept[of.banks]
    return found


def _shares(of: BatchEvaluation, weight: Tensor) -> list[Tensor | None]:
    """The shares of `_shares_apart`, those of equal rows added up."""
    apart = _shares_apart(of, weight)
    return [
        None if share is None else bank.sum_equal_rows(share)
        for bank, share in zip(of.banks, apart, strict=True)
    ]


def _shares_apart(of: BatchEvaluation, weight: Tensor) -> list[Tensor | None]:
    """For each bank on outputs what one unit of a row's penalty, summed over a part of the batch,
    adds to that part's total: [R, C].

    A rule's weight divided by the weighted number of (constraint, sample) pairs of it that apply
    (and, over time, are known).

    Args:
        weight: of samples, [C, n].
    """
    judged = [bank for bank in of.banks if bank.touches_output and not of.asleep(bank)]
    if not judged:
        return [None] * len(of.banks)
    kept = {} if of.is_symbolic else judged[0].kept
    known = _known_of(judged, weight.dtype, len(of.pack.manifest.rules), of.met.shape[0], kept)
    applying = _applying_at_once(of, known, weight)
    if applying is None:
        met = weight[:0] if all(bank.temporal for bank in judged) else _counted(of, of.met, weight)
        applying = torch.cat([_applying_to_all(of, bank, met, weight) for bank in judged])
    counts = weight.new_zeros(known.weights.shape[0], weight.shape[0]).index_add(
        0, known.rule, applying * known.own
    )
    factor = torch.where(counts > 0, known.weights / torch.where(counts > 0, counts, 1.0), 0.0)
    shares = iter(
        (factor[known.rule] * known.own).split_with_sizes([bank.weight.shape[0] for bank in judged])
    )
    return [next(shares) if bank in judged else None for bank in of.banks]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Known:
    """Properties of the rows of some banks that do not depend on the batch.

    The banks have R' rows of the pack in all.

    Attributes:
        rule: int64 [R'], the rule (position in the pack) of each row.
        own: [R', 1], the weight of each row.
        weights: [G, 1], the sum of the weights of each rule's rows.
        asked: int64 [k, R'], the positions of the at most k conditions of each row. Unused places
            contain D, which stands for a condition that is always met. None if a bank is about
            several steps.
    """

    rule: Tensor
    own: Tensor
    weights: Tensor
    asked: Tensor | None


def _known_of(
    judged: list[BankTensors], dtype: torch.dtype, rules: int, conditions: int, kept: dict[Any, Any]
) -> _Known:
    """What is known of the rows of these banks; found once for all that share `kept`."""
    key = _Known, tuple(judged), dtype
    if key not in kept:
        with torch.inference_mode(mode=False):  # what is kept serves training too
            rule = torch.cat([bank.rule for bank in judged])
            own = torch.cat([bank.weight for bank in judged]).to(dtype)[:, None]
            asked = None
            if not any(bank.temporal for bank in judged):
                most = max(bank.conditions.shape[0] for bank in judged)
                filled = [
                    pad(
                        bank.conditions,
                        (0, 0, 0, most - bank.conditions.shape[0]),
                        value=conditions,
                    )
                    for bank in judged
                ]
                asked = torch.cat(
                    [bank.of_every(each.T) for bank, each in zip(judged, filled, strict=True)]
                ).T
            kept[key] = _Known(
                rule=rule,
                own=own,
                weights=own.new_zeros(rules, 1).index_add(0, rule, own),
                asked=asked,
            )
    found: _Known = kept[key]
    return found


def _applying_at_once(of: BatchEvaluation, known: _Known, weight: Tensor) -> Tensor | None:
    """`_applying` for the rows of all banks, where that is little work; else None."""
    asked = known.asked
    if asked is None or asked.numel() * of.batch > LITTLE:
        return None
    met = torch.cat([of.met, of.met.new_ones(1, of.batch)])
    applies = met.new_ones(1, of.batch).expand(asked.shape[1], -1)
    for one in asked:
        applies = applies & met.index_select(0, one)
    return _counted(of, applies, weight)


def _applying_to_all(
    of: BatchEvaluation, bank: BankTensors, of_condition: Tensor, weight: Tensor
) -> Tensor:
    """`_applying` for all rows of the pack's bank."""
    several = not bank.temporal and bank.conditions.shape[0] > 1
    call = of.call(bank, slice(0, bank.rows), missing=True) if several else None
    if call is not None:
        from fedkg.constraints.fused.call import applying

        return bank.of_every(applying(call, weight))
    parts = [_applying(of, bank, rows, of_condition, weight) for rows in of.runs(bank)]
    return bank.of_every(torch.cat([weight.new_zeros((0, weight.shape[0])), *parts]))


def _applying(
    of: BatchEvaluation, bank: BankTensors, rows: slice, of_condition: Tensor, weight: Tensor
) -> Tensor:
    """The weight of the samples of each part that count for each row, [R, C].

    Steps that are padding have none.
    """
    if bank.temporal:
        return _counted(
            of,
            (
                of.single_pass.evaluate(bank, rows)[1]
                if of.single_pass.takes(bank)
                else of.counted(bank, rows)
            ),
            weight,
        )
    conditions = bank.conditions[:, rows]
    if conditions.shape[0] == 0:
        return weight.sum(dim=1).expand(rows.stop - rows.start, -1)
    if conditions.shape[0] == 1:
        return of_condition[conditions[0]]
    pairs = of.pairs(bank, rows)
    if pairs is None:
        return _counted(of, of.applies(bank, rows), weight)
    parts, size = weight.shape
    counted = weight.new_zeros(pairs.rows * parts).index_add(
        0, pairs.row * parts + pairs.sample // max(1, size), weight.flatten()[pairs.sample]
    )
    return counted.view(pairs.rows, parts)


def _counted(of: BatchEvaluation, which: Tensor, weight: Tensor) -> Tensor:
    """The weight, in each part, of the samples that a bool [R, B] picks: [R, C]."""
    picked = which.to(weight.dtype)
    if weight.shape[0] == 1:
        return (
            _over_samples(of, picked, weight[0])[:, None] if of.is_symbolic else picked @ weight.T
        )
    return torch.einsum("rcb,cb->rc", picked.view(-1, *weight.shape), weight)


def _over_samples(of: BatchEvaluation, each: Tensor, weight: Tensor | None) -> Tensor:
    """The weighted sum of numbers [R, B] over the samples: [R].

    Traced, those of each window first, in one loop with what they are made of: a product of
    matrices is none, and of a longer sum the compiler makes two.
    """
    if not of.is_symbolic:
        return each.sum(dim=1) if weight is None else each @ weight
    each = each if weight is None else each * weight
    return (
        each.reshape(each.shape[0], *of.shape).sum(dim=-1).sum(dim=-1)
        if len(of.shape) > 1
        else each.sum(dim=-1)
    )
