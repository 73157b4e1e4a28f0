"""How often each constraint is violated by many models' answers on one probe set: what a server scores its clients by.

A probe set has rows, no traces: constraints over time are not scored. They apply to no row of it, like those about categories that it
lacks.

Letters: K clients, P rows of the probe set, V runs of the model, H outputs, M constraints that touch an output (the others say nothing of a
model), U distinct ones among them.

All that depends on the probe set alone is evaluated once, here: an implication whose antecedent reads inputs becomes a mask over the probe
set, and constraints that differ in nothing but that mask share the evaluation of what is left.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedkg.constraints.banks import CHUNK, BankTensors, largest_number
from fedkg.constraints.evaluation import evaluate, evaluate_implication
from fedkg.constraints.module import ConstraintModule
from fedkg.constraints.numbers import computing_dtype, input_numbers, output_numbers
from fedkg.constraints.structure import split_guards
from fedkg.constraints.views import Before, Keys, Previous, key_codes, model_inputs
from fedkg.errors import LayoutError
from fedkg.pack.formulas import Formula, Implies
from fedkg.pack.validate import used_params, used_slots


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProbeScores:
    """What the probe set says of K clients.

    Attributes:
        violation: float64 [K, M], violated rows / rows on which the constraint applies; 0 where it applies to none.
        counts: int64 [K, M], rows on which it applies: its keys match and, for an implication, its antecedent holds.
        applies: bool [M], it applies to some row for some client; the others are vacuous.
    """

    violation: Tensor
    counts: Tensor
    applies: Tensor


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Group:
    """The constraints of one bank.

    Attributes:
        rest: what is left of the skeleton when guards over inputs are taken off its top.
        distinct: [U], rows of the bank that stand for all rows whose `rest` reads the same numbers. sizes, ends: how many rows
            each stands for, and where their run ends when all rows are put in that order.
        open: float [M_b, P] in that order, 1 where the row applies and its guards hold.
        place: [M_b], where each row of the bank stands in that order.
    """

    bank: BankTensors
    rest: Formula
    distinct: Tensor
    sizes: list[int]
    ends: list[int]
    open: Tensor
    place: Tensor


class Probe:
    """A probe set under the rules of a module.

    Args:
        module: the rules. x: the probe set [P, F], laid out as the module's `x`. keys, previous: as in `ConstraintModule.forward`.

    Attributes:
        inputs: [V * P, F], on which each client's model must run.
        rule: int64 [M], the rule (position in the pack) of each constraint; weight: float64 [M], its share of the rule's weight.
    """

    def __init__(self, module: ConstraintModule, x: Tensor, *, keys: Keys | None = None, previous: Previous = None) -> None:
        report = module(x, torch.zeros(len(module.plan.runs), x.shape[0], len(module.plan.y)).to(x), keys=keys, previous=previous)
        self._module, self._dtype = module, computing_dtype(x)
        self._before = module.rows_before(x, keys or {}, previous)
        self.inputs = model_inputs(module.plan, x, self._before).flatten(0, 1)
        self.rows = int(x.shape[0])
        codes = key_codes(module.plan, keys or {}, self.rows, x.device)
        self._numbers = input_numbers(module.plan, module.wires, x, codes, self._before, self._dtype)
        self.inactive = {**report.inactive, **_over_time(module)}
        scored = [bank for bank in module.banks if bank.touches_output and bank.rows]
        none = torch.zeros(0, dtype=torch.int64, device=x.device)
        self.rule = torch.cat([none, *(bank.rule for bank in scored)])
        self.weight = torch.cat([none.double(), *(bank.weight for bank in scored)])
        self._groups = tuple(self._group(bank) for bank in scored)

    @property
    def constraints(self) -> int:
        """M."""
        return int(self.rule.shape[0])

    def vacuous(self, scores: ProbeScores) -> tuple[str, ...]:
        """Names of rules of which no constraint applies to any row of the probe set."""
        names = self._module.rule_names
        applied = set(self.rule[scores.applies].tolist())
        return tuple(names[rule] for rule in sorted(set(self.rule.tolist()) - applied))

    def score(self, y: Tensor) -> ProbeScores:
        """The scores of K clients by their models' answers on `inputs`.

        An answer that is not a finite number satisfies nothing: where it leaves a constraint open, it counts as violated.

        Args:
            y: [K, V * P, H], or [K, V * P] for one output.
        """
        plan = self._module.plan
        runs, entries = len(plan.runs), len(plan.y)
        y = y[..., None] if y.ndim == 2 and entries == 1 else y
        if y.ndim != 3 or y.shape[1:] != (self.inputs.shape[0], entries):
            raise LayoutError(
                "answers do not fit the probe set", expected=f"[K, {self.inputs.shape[0]}, {entries}]", received=f"{list(y.shape)}"
            )
        if not self._groups:
            empty = torch.zeros((y.shape[0], 0), dtype=torch.float64, device=y.device)
            return ProbeScores(violation=empty, counts=empty.long(), applies=empty.new_zeros(0, dtype=torch.bool))
        step = max(1, 4 * CHUNK // max(1, self.rows * runs))
        y = y.reshape(y.shape[0], runs, self.rows, entries)
        parts = [self._count(y[start : start + step]) for start in range(0, max(1, y.shape[0]), step)]
        violated, counts = (torch.cat([part[i] for part in parts]) for i in (0, 1))
        violation = violated / counts.clamp(min=1)
        return ProbeScores(violation=violation, counts=counts.long(), applies=(counts > 0).any(dim=0))

    def _group(self, bank: BankTensors) -> _Group:
        guards, rest = split_guards(bank.skeleton)
        if bank.temporal:
            nowhere = torch.zeros((bank.rows, self.rows), device=self._numbers.met.device)
            return _Group(bank=bank, rest=rest, distinct=nowhere[:0, 0].long(), sizes=[], ends=[], open=nowhere, place=nowhere[:, 0].long())
        numbers, met = self._numbers.numbers, self._numbers.met
        outputs = numbers.new_zeros((len(self._module.plan.output_reads), self.rows))
        opened = []
        for rows in bank.chunks(self.rows):
            applies = bank.applies(rows, met)
            mask = torch.ones((rows.stop - rows.start, self.rows), dtype=torch.bool, device=numbers.device) if applies is None else applies
            reading = bank.reading(rows, numbers, outputs, careful=True)
            for guard in guards:
                mask = mask & (evaluate(guard, reading) >= 0)
            opened.append(mask.to(torch.float32))
        used = used_slots(rest)
        alone = torch.arange(bank.rows, device=numbers.device)[None].double()[: bool(bank.members)]  # rows with sets share nothing
        key = torch.cat(
            [
                alone,
                bank.input_index[[i for i, slot in enumerate(bank.inputs) if slot in used]].double(),
                bank.output_index[[i for i, slot in enumerate(bank.outputs) if slot in used]].double(),
                torch.nan_to_num(bank.params[sorted(used_params(rest)), :, 0], nan=torch.inf),
            ]
        )
        _, member, sizes = torch.unique(key, dim=1, return_inverse=True, return_counts=True)
        order = torch.argsort(member, stable=True)
        distinct = order[torch.cumsum(sizes, 0) - sizes]
        return _Group(
            bank=bank,
            rest=rest,
            distinct=distinct,
            sizes=sizes.tolist(),
            ends=torch.cumsum(sizes, 0).tolist(),
            open=torch.cat(opened)[order],
            place=torch.argsort(order),
        )

    def _count(self, y: Tensor) -> tuple[Tensor, Tensor]:
        """Violated rows and rows that apply, float64 [k, M] each, of answers [k, V, P, H]."""
        clients, plan, module = y.shape[0], self._module.plan, self._module
        answers = y.transpose(0, 1).reshape(len(plan.runs), -1, y.shape[3])
        before = {view: Before(rows.features, rows.known.repeat(clients)) for view, rows in self._before.items()}
        outputs = output_numbers(plan, module.wires, answers, before, self._dtype)
        inputs = self._numbers.numbers.repeat(1, clients)
        broken = ~torch.isfinite(y).all(dim=3).all(dim=1)
        largest = largest_number(inputs, outputs)
        violated, counts = [], []
        for group in self._groups:
            careful = not largest <= group.bank.quick
            if group.bank.temporal:
                nothing = group.open.new_zeros(clients, group.bank.rows)
                violated.append(nothing)
                counts.append(nothing)
                continue
            parts = [self._distinct(group, part, inputs, outputs, broken, careful=careful) for part in _parts(group, inputs.shape[1])]
            violated.append(torch.cat([part[0] for part in parts])[group.place].T)
            fired = [group.open.sum(dim=1)[:, None].expand(-1, clients)] if parts[0][1] is None else [part[1] for part in parts]
            counts.append(torch.cat([part for part in fired if part is not None])[group.place].T)
        return torch.cat(violated, dim=1).double(), torch.cat(counts, dim=1).double()

    def _distinct(
        self, group: _Group, part: slice, inputs: Tensor, outputs: Tensor, broken: Tensor, *, careful: bool
    ) -> tuple[Tensor, Tensor | None]:
        """For all constraints that some distinct ones stand for, [m, k]: violated rows and (for implications left) rows that fire."""
        distinct = group.distinct[part]
        shape = (distinct.shape[0], inputs.shape[1])
        rows = slice(part.start, part.start + shape[0]) if group.bank.members else distinct
        reading = group.bank.reading(rows, inputs, outputs, careful=careful)
        if not isinstance(group.rest, Implies):
            values = evaluate(group.rest, reading).expand(shape)
            return _masked_sums(group, part, _hits(values, broken, careful=careful)), None
        values, fired = evaluate_implication(group.rest, reading)
        hits = _hits(values.expand(shape), broken, careful=careful)
        return _masked_sums(group, part, hits), _masked_sums(group, part, fired.expand(shape).reshape(hits.shape) | hits)


def _over_time(module: ConstraintModule) -> dict[str, str]:
    """Rules (by name) that a probe set of rows cannot score, and why."""
    rules = {rule for bank in module.banks if bank.temporal for rule in bank.rule.tolist()}
    return {module.rule_names[rule]: "is judged over time; a probe set has rows, no traces" for rule in sorted(rules)}


def _parts(group: _Group, width: int) -> list[slice]:
    """The distinct constraints in runs of about `CHUNK` numbers; one empty run when there are none."""
    members = int(group.bank.load[-1]) // max(1, group.bank.rows)
    step = max(1, CHUNK // max(1, width * members))
    return [slice(start, start + step) for start in range(0, max(1, len(group.sizes)), step)]


def _hits(values: Tensor, broken: Tensor, *, careful: bool) -> Tensor:
    """Violated, bool [u, k, P]: robustness below 0, or open where an answer is no number."""
    hits = values < 0
    if careful:
        hits = hits | (torch.isnan(values) & broken.flatten())
    return hits.reshape(values.shape[0], *broken.shape)


def _masked_sums(group: _Group, part: slice, hits: Tensor) -> Tensor:
    """How many open rows are hit, [m, k], for the m constraints that the distinct ones of `part` stand for; `hits` [u, k, P].

    Constraints that share a distinct one are one matrix product: mask [m, P] times hits [P, k].
    """
    sizes, ends = group.sizes[part], group.ends[part]
    values = hits.to(group.open.dtype)
    if all(size == 1 for size in sizes):
        first = ends[0] - 1 if ends else 0
        return torch.bmm(values, group.open[first : first + len(ends), :, None])[:, :, 0]
    return torch.cat([group.open[end - size : end] @ value.T for end, size, value in zip(ends, sizes, values, strict=True)])
