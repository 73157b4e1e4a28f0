"""Properties of clients: what `infer` leaves open, found in their traces, as one formula for each of them, with its nearest trace.

Letters: C clients (or clusters), S traces of each, T steps, V channels, B traces of any of them, P parameters of an inference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedkg.constraints.binding.layout import InputLayout
from fedkg.errors import KnowledgeError, LayoutError, SetError
from fedkg.federated.temporal.conjunction import conjunction
from fedkg.mining import Pick, least, mine, satisfied
from fedkg.mining.data import places
from fedkg.pack import Pack
from fedkg.pack.inference import Inference
from fedkg.teacher import Teacher


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Alike:
    """The clients for whom the same properties are determined, with the same bounds of windows.

    Attributes:
        place: int64 [C], their place in the teacher; -1 for others. channels: of the traces, in the order of the teacher's.
    """

    teacher: Teacher
    place: Tensor
    channels: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Properties:
    """One formula for each client: all inferences, each with the client's own values.

    An inference whose values a client's traces leave open is no part of its formula.

    Args:
        pack, inferences: what was mined. values: float64 [C, P] of each inference; NaN where not determined.
        layout: of the channels. Traces come scaled as it says; they are judged and moved in source units.
        steps: T.
        epsilon: what each trace has spent of its privacy for all values together; None: they were found without.
    """

    pack: Pack
    inferences: tuple[Inference, ...]
    values: tuple[Tensor, ...]
    layout: InputLayout
    steps: int
    epsilon: float | None = None
    _alike: tuple[_Alike, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        known = self.determined.cpu()
        bounds = [
            values[:, [parameter.integer for parameter in inference.parameters]].cpu()
            for inference, values in zip(self.inferences, self.values, strict=True)
        ]
        kinds = torch.cat([known.double(), *(each.nan_to_num(-1.0) for each in bounds)], 1)
        distinct, which = torch.unique(kinds, dim=0, return_inverse=True)
        groups = [
            self._group(which == kind, known[which == kind][0]) for kind in range(len(distinct)) if bool(known[which == kind][0].any())
        ]
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

    def _group(self, members: Tensor, known: Tensor) -> _Alike:
        used = [place for place, there in enumerate(known.tolist()) if there]
        bank = conjunction([self.pack.conditions[self.inferences[place].condition] for place in used])
        params = torch.from_numpy(bank.params[:1]).repeat(int(members.sum()), 1)
        before = 0
        for place in used:
            inference = self.inferences[place]
            for column, parameter in enumerate(inference.parameters):
                params[:, before + parameter.param] = self.values[place].cpu()[members, column]
            before += self.pack.conditions[inference.condition].params.shape[1]
        teacher = Teacher(bank, self.steps, params=params, clip=self.pack.manifest.contract.end == "clip", everywhere=False)
        place_of = torch.full((len(members),), -1, dtype=torch.int64)
        place_of[members] = torch.arange(int(members.sum()))
        return _Alike(teacher=teacher, place=place_of, channels=tuple(places(self.pack, bank, self.layout)))

    def source(self, traces: Tensor) -> Tensor:
        """Traces [..., V] in source units; as they are where they come in them."""
        if self.layout.mean is None or self.layout.std is None:
            return traces
        values = traces.double()
        return values * values.new_tensor(self.layout.std) + values.new_tensor(self.layout.mean)

    def nearest(self, traces: Tensor, client: Tensor) -> Tensor:
        """The nearest satisfying traces, [B, T, V], of traces in source units; client: int64 [B]. No gradient goes through them.

        Traces with a number that is unknown or infinite, as models give that have diverged, stay as they are.
        """
        result = traces.detach().clone()
        known = result.isfinite().flatten(1).all(1)
        for one in self._alike:
            place = one.place.to(client.device)[client]
            movable = (place >= 0) & known.to(place.device)
            if bool(movable.all()) and one.channels == tuple(range(traces.shape[-1])):
                return one.teacher.closest(result, place)
            rows = torch.nonzero(movable).squeeze(1)
            channels = torch.tensor(one.channels, device=client.device)
            held = result[rows][..., channels]
            moved = result[rows]
            moved[..., channels] = one.teacher.closest(held, place[rows])
            result[rows] = moved
        return result

    def corrected(self, traces: Tensor, client: Tensor) -> Tensor:
        """The same for traces that are scaled as the layout says, scaled again: what a student learns from."""
        if self.layout.mean is None or self.layout.std is None:
            return self.nearest(traces, client)
        source = self.nearest(self.source(traces), client)
        return ((source - source.new_tensor(self.layout.mean)) / source.new_tensor(self.layout.std)).to(traces.dtype)

    def satisfied(self, traces: Tensor, client: Tensor) -> Tensor:
        """Which traces [B, T, V], in source units, satisfy their client's formula: bool [B]."""
        plain = InputLayout(names=self.layout.names, sure=True)
        result = torch.ones(len(traces), dtype=torch.bool, device=traces.device)
        for inference, values in zip(self.inferences, self.values, strict=True):
            own = values.to(client.device)[client]
            verdict = satisfied(self.pack, inference, own, traces.unsqueeze(1), layout=plain).squeeze(1)
            result &= verdict | torch.isnan(own).any(1)
        return result


def mined(
    pack: Pack, traces: Sequence[Tensor], layout: InputLayout, *, inferences: Sequence[Inference] | None = None, pick: Pick = least
) -> Properties:
    """The properties of clients, each with traces [S, T, V] of its own; those ``per run`` are found in the traces of all.

    Args:
        pack: with `infer` statements. layout: of the V channels. inferences: which to find; None: all ``per client`` and ``per run``.
        pick: how the levels of traces become that of a client: the least, a quantile, a private one. Private values are noise where traces
            are few: an inference whose values no trace satisfies is no part of the client's formula then.

    Raises:
        KnowledgeError: the pack infers nothing for clients. LayoutError: the traces do not fit the layout.
    """
    chosen = tuple(one for one in pack.manifest.inferences if one.per != "cluster") if inferences is None else tuple(inferences)
    if not chosen:
        raise KnowledgeError("the rules infer nothing that clients could be held to", expected="infer NAME per client find ...")
    if any(one.ndim != 3 or one.shape[1:] != traces[0].shape[1:] for one in traces):
        raise LayoutError("the clients' traces differ in their steps or channels", received=str([list(one.shape) for one in traces[:5]]))
    most = max(len(one) for one in traces)
    together = torch.stack([torch.cat([one, one.new_zeros((most - len(one), *one.shape[1:]))]) for one in traces])
    counts = torch.tensor([len(one) for one in traces], device=together.device)
    inside = torch.arange(most, device=together.device) < counts.unsqueeze(1)
    values = []
    for inference in chosen:
        if inference.per == "run":
            pooled = mine(pack, inference, torch.cat(list(traces)), layout=layout, pick=pick).values
            values.append(pooled.expand(len(traces), -1))
        else:
            values.append(mine(pack, inference, together, layout=layout, inside=inside, pick=pick).values)
    steps = int(traces[0].shape[1])
    if pick.noisy:
        values = _sound(pack, chosen, values, layout, steps)
    spent = pick.epsilon * sum(len(one.parameters) for one in chosen) if pick.noisy else None
    return Properties(pack=pack, inferences=chosen, values=tuple(values), layout=layout, steps=steps, epsilon=spent)


def _sound(pack: Pack, inferences: Sequence[Inference], values: Sequence[Tensor], layout: InputLayout, steps: int) -> list[Tensor]:
    """Values [C, P] of each inference without those that no trace satisfies; told by the values alone, so that it costs no privacy."""
    each = [
        torch.where(_satisfiable(pack, [one], [own], layout, steps).unsqueeze(1), own, torch.nan)
        for one, own in zip(inferences, values, strict=True)
    ]
    together = _satisfiable(pack, inferences, each, layout, steps).unsqueeze(1)
    return [torch.where(together, own, torch.nan) for own in each]


def _satisfiable(pack: Pack, inferences: Sequence[Inference], values: Sequence[Tensor], layout: InputLayout, steps: int) -> Tensor:
    """bool [C], whether some trace satisfies each client's formula: the one nearest to nothing but zeros."""
    count, device = len(values[0]), values[0].device
    try:
        own = Properties(pack=pack, inferences=tuple(inferences), values=tuple(values), layout=layout, steps=steps)
        clients = torch.arange(count, device=device)
        zeros = torch.zeros((count, steps, len(layout.names)), dtype=torch.float64, device=device)
        return own.satisfied(own.nearest(zeros, clients), clients)
    except SetError:
        if count == 1:
            return torch.zeros(1, dtype=torch.bool, device=device)
    alone = [_satisfiable(pack, inferences, [one[place : place + 1] for one in values], layout, steps) for place in range(count)]
    return torch.cat(alone)


def as_traces(flat: Tensor, steps: int, channels: int) -> Tensor:
    """Outputs or targets [..., T * V], or [..., T, V] already, step after step, as traces [rows, T, V]."""
    return flat.reshape(-1, steps, channels)
