"""Properties of clients: what `infer` leaves open, found in their traces, as one formula for each
of them, with its nearest trace.

Letters: C clients (or clusters), S traces of each, T steps, V channels, B traces of any of them, P
parameters of an inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fedkg.constraints.binding.layout import InputLayout
from fedkg.errors import KnowledgeError, LayoutError, SetError
from fedkg.federated.temporal.expert_rules import ExpertRule, Unreadable, expert_rules, teacher_of
from fedkg.mining import Pick, least, mine, satisfied_traces
from fedkg.mining.trace_channels import layout_positions, reads_other_steps
from fedkg.pack import Pack
from fedkg.pack.parameter_mining_tasks import Inference
from fedkg.teacher import Teacher


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Alike:
    """Clients with the same inferences and rules in their formulas, and the same window bounds.

    Attributes:
        teacher: the teacher of these formulas.
        place: int64 [C], the position of each client in the teacher; -1 for other clients.
        channels: the positions of the teacher's channels among the V channels, in its order.
        mined: whether the formulas contain mined conditions.
        rules: the positions of the expert's rules that the formulas contain.
    """

    teacher: Teacher
    place: Tensor
    channels: tuple[int, ...]
    mined: bool
    rules: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Properties:
    """One formula for each client: all inferences with the client's values, and the expert's rules
    about forecasts.

    An inference that a client's traces leave open is not part of its formula. Hard rules always
    are. A soft rule is left out if no trace satisfies it together with the mined conditions
    (`notes` says so). Mined conditions are left out if they contradict the hard rules.

    Args:
        pack: the pack with the inferences and rules.
        inferences: the inferences that were mined.
        values: float64 [C, P] for each inference; NaN where not determined.
        layout: the layout of the channels. Traces have its scaling; fedkg judges and moves them in
            source units.
        steps: T.
        epsilon: the privacy loss of each trace for all values together; None for values without
            privacy.
    """

    pack: Pack
    inferences: tuple[Inference, ...]
    values: tuple[Tensor, ...]
    layout: InputLayout
    steps: int
    epsilon: float | None = None
    _rules: tuple[ExpertRule, ...] = field(init=False, repr=False)
    _unreadable: tuple[Unreadable, ...] = field(init=False, repr=False)
    _alike: tuple[_Alike, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rules, unreadable = expert_rules(self.pack, self.layout, self.steps)
        object.__setattr__(self, "_rules", rules)
        object.__setattr__(self, "_unreadable", unreadable)
        known = self.determined.cpu()
        bounds = [
            values[:, [parameter.integer for parameter in inference.parameters]].cpu()
            for inference, values in zip(self.inferences, self.values, strict=True)
        ]
        kinds = torch.cat([known.double(), *(each.nan_to_num(-1.0) for each in bounds)], 1)
        distinct, which = torch.unique(kinds, dim=0, return_inverse=True)
        groups: list[_Alike] = []
        for kind in range(len(distinct)):
            members = torch.nonzero(which == kind).flatten().tolist()
            used = tuple(torch.nonzero(known[members[0]]).flatten().tolist())
            groups += self._groups(members, used)
        object.__setattr__(self, "_alike", tuple(groups))

    @property
    def clients(self) -> int:
        """C."""
        return int(self.values[0].shape[0])

    @property
    def parameters(self) -> int:
        """P of all inferences together."""
        return sum(len(one.parameters) for one in self.inferences)

    @property
    def pooled(self) -> bool:
        """Whether one of them was found in the traces of all clients together."""
        return any(one.per == "run" for one in self.inferences)

    @property
    def determined(self) -> Tensor:
        """bool [C, inferences], which of them are part of each client's formula."""
        return torch.stack([~torch.isnan(values).any(1) for values in self.values], 1)

    @property
    def notes(self) -> tuple[str, ...]:
        """Which of the expert's rules are not part of the formulas, and why, in one sentence
        each.
        """
        return self.format_left_out(self.count_left_out(range(self.clients)))

    def count_left_out(self, clients: Sequence[int]) -> list[int]:
        """At how many of these clients each of the expert's rules, and at last what was mined, is
        not part of the formula.
        """
        known, chosen = self.determined.cpu(), torch.tensor(list(clients), dtype=torch.int64)
        members = [(one, int((one.place[chosen] >= 0).sum())) for one in self._alike]
        counts = []
        for name in self._rule_names:
            numbers = {place for place, rule in enumerate(self._rules) if rule.name == name}
            counts.append(sum(count for one, count in members if not numbers <= set(one.rules)))
        lost = sum(
            count for one, count in members if not one.mined and bool(known[one.place >= 0].any())
        )
        return [*counts, lost]

    def format_left_out(self, counts: Sequence[int]) -> tuple[str, ...]:
        """The sentences of `notes`, from the counts of `count_left_out` at all clients."""
        found = [
            f"the teacher does not include the rule {one.name}: {one.reason}"
            for one in self._unreadable
        ]
        of = f"of {self.clients} clients"
        found += [
            f"the teacher does not include the rule {name} at {without} {of}: no forecast"
            " satisfies it together with what was mined there, or both together are too"
            " large"
            for name, without in zip(self._rule_names, counts, strict=False)
            if without
        ]
        if counts[-1]:
            found.append(
                f"the teacher does not include what was mined at {counts[-1]} {of}: no forecast"
                " satisfies it together with the hard rules"
            )
        return tuple(found)

    @property
    def _rule_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(rule.name for rule in self._rules))

    def _groups(self, members: list[int], used: tuple[int, ...]) -> list[_Alike]:
        """Return the groups of clients with the same inferences and rules in their formulas;
        `used`: the inferences with values.
        """
        parts: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
        for some, kept, rules in self._joined(members, used):
            parts.setdefault((kept, rules), []).extend(some)
        return [
            self._group(some, kept, rules) for (kept, rules), some in parts.items() if kept or rules
        ]

    def _joined(
        self, members: list[int], used: tuple[int, ...]
    ) -> list[tuple[list[int], tuple[int, ...], tuple[int, ...]]]:
        """Clients with the inferences and the rules that a trace can satisfy together for them.

        Hard rules come first, then what was mined, then soft rules in their order.
        """
        every = tuple(range(len(self._rules)))
        if not used and not every:
            return [(members, (), ())]
        if not every or self._possible(members, used, every):
            return [(members, used, every)]
        if len(members) > 1:
            half = len(members) // 2
            return [*self._joined(members[:half], used), *self._joined(members[half:], used)]
        chosen = tuple(place for place in every if self._rules[place].hard)
        kept = used if self._possible(members, used, chosen) else ()
        for place in every:
            if place not in chosen and self._possible(members, kept, (*chosen, place)):
                chosen = (*chosen, place)
        return [(members, kept, tuple(sorted(chosen)))]

    def _possible(self, members: list[int], used: tuple[int, ...], rules: tuple[int, ...]) -> bool:
        """Whether traces satisfy these inferences and rules together, and the rules do not make the
        teacher slow.
        """
        if not used and not rules:
            return True
        try:
            teacher = self._group(members, used, rules).teacher
        except SetError:
            if used and rules:
                self._group(members, used, ())  # what was mined contradicts itself: raises
            return False
        return not teacher.by_program or (
            bool(used and rules) and self._group(members, used, ()).teacher.by_program
        )

    def _group(self, members: list[int], used: tuple[int, ...], rules: tuple[int, ...]) -> _Alike:
        """Raises SetError: no trace satisfies the inferences and rules together, for some
        client.
        """
        conditions = [self.pack.conditions[self.inferences[place].condition] for place in used]
        banks = [*conditions, *(self._rules[place].bank for place in rules)]
        numbers = torch.from_numpy(np.concatenate([bank.params[:1] for bank in banks], 1))
        params = numbers.repeat(len(members), 1)
        before = 0
        for place, condition in zip(used, conditions, strict=True):
            for column, parameter in enumerate(self.inferences[place].parameters):
                params[:, before + parameter.param] = self.values[place].cpu()[members, column]
            before += condition.params.shape[1]
        teacher, bank = teacher_of(self.pack, banks, self.steps, params)
        place_of = torch.full((self.clients,), -1, dtype=torch.int64)
        place_of[members] = torch.arange(len(members))
        return _Alike(
            teacher=teacher,
            place=place_of,
            channels=tuple(layout_positions(self.pack, bank, self.layout)),
            mined=bool(used),
            rules=rules,
        )

    def source(self, traces: Tensor) -> Tensor:
        """Traces [..., V] in source units; as they are where they come in them."""
        if self.layout.mean is None or self.layout.std is None:
            return traces
        values = traces.double()
        return values * values.new_tensor(self.layout.std) + values.new_tensor(self.layout.mean)

    def nearest(self, traces: Tensor, client: Tensor) -> Tensor:
        """The nearest satisfying traces, [B, T, V], of traces in source units; client: int64 [B].

        No gradient goes through them.

        Traces with a number that is unknown or infinite, as models give that have diverged, stay as
        they are.
        """
        result = traces.detach().clone()
        known = result.isfinite().flatten(1).all(1)
        for one in self._alike:
            place = one.place.to(client.device)[client]
            movable = (place >= 0) & known.to(place.device)
            if bool(movable.all()) and one.channels == tuple(range(traces.shape[-1])):
                return one.teacher.nearest(result, place)
            rows = torch.nonzero(movable).squeeze(1)
            channels = torch.tensor(one.channels, device=client.device)
            held = result[rows][..., channels]
            moved = result[rows]
            moved[..., channels] = one.teacher.nearest(held, place[rows])
            result[rows] = moved
        return result

    def corrected(self, traces: Tensor, client: Tensor) -> Tensor:
        """The same for traces that are scaled as the layout says, scaled again: what a student
        learns from.
        """
        if self.layout.mean is None or self.layout.std is None:
            return self.nearest(traces, client)
        source = self.nearest(self.source(traces), client)
        return (
            (source - source.new_tensor(self.layout.mean)) / source.new_tensor(self.layout.std)
        ).to(traces.dtype)

    def satisfied(self, traces: Tensor, client: Tensor) -> Tensor:
        """Which traces [B, T, V], in source units, satisfy their client's formula: bool [B]."""
        plain = InputLayout(names=self.layout.names, sure=True)
        result = torch.ones(len(traces), dtype=torch.bool, device=traces.device)
        mined, joined = (table.to(client.device)[client] for table in self._parts())
        for inference, values in zip(self.inferences, self.values, strict=True):
            own = values.to(client.device)[client]
            verdict = satisfied_traces(
                self.pack, inference, own, traces.unsqueeze(1), layout=plain
            ).squeeze(1)
            result &= verdict | torch.isnan(own).any(1) | ~mined
        known = traces.isfinite().flatten(1).all(1)
        for place, rule in enumerate(self._rules):
            asked = joined[:, place] & known
            result[asked] &= rule.satisfied(traces[asked], self.layout)
        return result

    def _parts(self) -> tuple[Tensor, Tensor]:
        """Return which clients' formulas contain the mined conditions, bool [C], and each of R
        rules, bool [C, R].
        """
        mined = torch.zeros(self.clients, dtype=torch.bool)
        joined = torch.zeros((self.clients, len(self._rules)), dtype=torch.bool)
        for one in self._alike:
            mined[one.place >= 0] = one.mined
            for place in one.rules:
                joined[one.place >= 0, place] = True
        return mined, joined


def unknown_properties(pack: Pack, layout: InputLayout, steps: int, clients: int) -> Properties:
    """The properties of clients that keep them: no number is known here."""
    inferences = tuple(one for one in pack.manifest.inferences if one.per != "cluster")
    values = tuple(
        torch.full((clients, len(one.parameters)), torch.nan, dtype=torch.float64)
        for one in inferences
    )
    return Properties(pack=pack, inferences=inferences, values=values, layout=layout, steps=steps)


def mined(
    pack: Pack,
    traces: Sequence[Tensor],
    layout: InputLayout,
    *,
    inferences: Sequence[Inference] | None = None,
    pick: Pick = least,
    longest: int | None = None,
) -> Properties:
    """Mine the properties of clients from their traces [S, T, V]; inferences ``per run`` are mined
    from the traces of all clients.

    Args:
        pack: a pack with `infer` statements.
        traces: the traces of each client, [S, T, V].
        layout: the layout of the V channels.
        inferences: the inferences to mine; None for all ``per client`` and ``per run``.
        pick: how the levels of traces become the value of a client: the least, a quantile, or a
            private value. With few traces, private values are mostly noise: an inference with
            values that no trace satisfies is then left out of the client's formula.
        longest: the most traces of any client, where some clients keep theirs elsewhere: the noise
            of private values is drawn for so many. None: the most of these.

    Raises:
        KnowledgeError: the pack infers nothing for clients, or an inference has a number over time.
        LayoutError: the traces do not fit the layout.
    """
    chosen = (
        tuple(one for one in pack.manifest.inferences if one.per != "cluster")
        if inferences is None
        else tuple(inferences)
    )
    if not chosen:
        raise KnowledgeError(
            "the rules have no `infer` statement for single clients, so there is nothing to mine",
            expected="infer NAME per client find ...",
            help="add such a statement to the rule file",
        )
    for one in chosen:
        if reads_other_steps(pack.conditions[one.condition].skeleton):
            raise KnowledgeError(
                f"`infer {one.name}` has an earlier value or a number over time: the teacher cannot"
                " move a forecast to satisfy it",
                expected="a condition on the values of each step",
                help="limit the values themselves, such as `always x <= ?high`; or use"
                " fedkg.mining.mine and write the result into a soft rule",
            )
    for place, own in enumerate(traces):
        if own.ndim != 3:
            raise LayoutError(
                "traces need three dimensions",
                expected="[traces, steps, channels]",
                received=f"{list(own.shape)} of client {place}",
                help="write `trace[None]` if a client has one trace",
            )
        if own.shape[1:] != traces[0].shape[1:]:
            raise LayoutError(
                "the traces of all clients must have the same steps and channels",
                expected=f"[traces, steps, channels], like {list(traces[0].shape)} of client 0",
                received=f"{list(own.shape)} of client {place}",
            )
    most = longest or max(len(one) for one in traces)
    together = torch.stack(
        [torch.cat([one, one.new_zeros((most - len(one), *one.shape[1:]))]) for one in traces]
    )
    counts = torch.tensor([len(one) for one in traces], device=together.device)
    inside = torch.arange(most, device=together.device) < counts.unsqueeze(1)
    values = []
    for inference in chosen:
        if inference.per == "run":
            pooled = mine(pack, inference, torch.cat(list(traces)), layout=layout, pick=pick).values
            values.append(pooled.expand(len(traces), -1))
        else:
            values.append(
                mine(pack, inference, together, layout=layout, inside=inside, pick=pick).values
            )
    steps = int(traces[0].shape[1])
    if pick.noisy:
        values = _sound(pack, chosen, values, layout, steps)
    spent = pick.epsilon * sum(len(one.parameters) for one in chosen) if pick.noisy else None
    return Properties(
        pack=pack,
        inferences=chosen,
        values=tuple(values),
        layout=layout,
        steps=steps,
        epsilon=spent,
    )


def _sound(
    pack: Pack,
    inferences: Sequence[Inference],
    values: Sequence[Tensor],
    layout: InputLayout,
    steps: int,
) -> list[Tensor]:
    """Values [C, P] of each inference without those that no trace satisfies; told by the values
    alone, so that it costs no privacy.
    """
    each = [
        torch.where(_satisfiable(pack, [one], [own], layout, steps).unsqueeze(1), own, torch.nan)
        for one, own in zip(inferences, values, strict=True)
    ]
    together = _satisfiable(pack, inferences, each, layout, steps).unsqueeze(1)
    return [torch.where(together, own, torch.nan) for own in each]


def _satisfiable(
    pack: Pack,
    inferences: Sequence[Inference],
    values: Sequence[Tensor],
    layout: InputLayout,
    steps: int,
) -> Tensor:
    """bool [C], whether some trace satisfies each client's formula: the one nearest to nothing but
    zeros.
    """
    count, device = len(values[0]), values[0].device
    try:
        own = Properties(
            pack=pack,
            inferences=tuple(inferences),
            values=tuple(values),
            layout=layout,
            steps=steps,
        )
        clients = torch.arange(count, device=device)
        zeros = torch.zeros((count, steps, len(layout.names)), dtype=torch.float64, device=device)
        return own.satisfied(own.nearest(zeros, clients), clients)
    except SetError:
        if count == 1:
            return torch.zeros(1, dtype=torch.bool, device=device)
    alone = [
        _satisfiable(pack, inferences, [one[place : place + 1] for one in values], layout, steps)
        for place in range(count)
    ]
    return torch.cat(alone)


def as_traces(flat: Tensor, steps: int, channels: int) -> Tensor:
    """Outputs or targets [..., T * V], or [..., T, V] already, step after step, as traces [rows, T,
    V].
    """
    return flat.reshape(-1, steps, channels)
