"""The teacher: the satisfying trace that is nearest to a predicted one in L1, exact, for a batch at
once.

Source: the teacher of An, Johnson and Ma 2024. fedkg unrolls a formula over the steps. The
remaining formula after each step is a state, and the nearest trace is the cheapest path. This one
algorithm is a clamp for operational ranges, the choice of one step for eventualities, and the
dynamic program over "high" flags for responses. Its cost grows with the number of states (see
`fedkg.teacher.trace_decision_diagram`), not with the number of satisfying boxes.

Letters: B traces, T steps, V channels, C clients, P parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from fedkg._internal.threads import library_threads
from fedkg._internal.torch_compat import being_traced
from fedkg._internal.vmap_dims import move_batch_dim_first
from fedkg.constraints.binding.rule_input_values import computing_dtype
from fedkg.errors import SetError
from fedkg.kernels.compiled_loop_policy import can_compile_loops
from fedkg.pack import Bank
from fedkg.teacher import milp
from fedkg.teacher.boolean_expressions import FALSE, Expressions
from fedkg.teacher.channel_value_cells import ChannelGroup, bound_order, build_group, distinct_forms
from fedkg.teacher.formula_unrolling import Unrolling
from fedkg.teacher.independent_steps import stepwise_groups
from fedkg.teacher.literals import Literals
from fedkg.teacher.teacher_arguments import (
    check_bank,
    check_clients,
    check_known,
    check_owner,
    check_params,
    check_traces,
)
from fedkg.teacher.trace_decision_diagram import (
    BeyondDiagram,
    Edges,
    Layer,
    build_layers,
    diagram_edges,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Part:
    """A part of the formula with separate channels: its groups, letters and diagram, for some
    clients.
    """

    groups: tuple[ChannelGroup, ...]
    letters: tuple[tuple[int, ...], ...]
    layers: tuple[Layer, ...]
    edges: Edges


class Teacher:
    """Nearest satisfying traces of one formula.

    Args:
        bank: one row, with a slot for each channel, in their order.
        steps: T.
        params: the formula's parameters for each client, float64 [C, P of the bank]; None: the
            bank's. Bounds of windows must be equal for all clients.
        clip: whether windows end with the trace.
        everywhere: whether the formula must be satisfied at every step, like rules (without `clip`:
            at every step with its windows inside the trace); otherwise at the first one, like mined
            templates.
        open_end: without `clip`, whether windows may reach beyond the trace: comparisons there may
            still become true, as in verdicts on rules.

    If a channel occurs in several linear combinations, or the diagram exceeds its limit,
    mixed-integer programming solves for each trace (`by_program`), in seconds instead of
    microseconds.

    Raises:
        SetError: wrong bank; no trace satisfies the formula; it has comparisons that are not
            linear, or parts that read classes or members; parameters of another shape, without a
            value, or with different bounds of windows.
        HorizonError: a window reaches beyond the traces.
    """

    def __init__(
        self,
        bank: Bank,
        steps: int,
        *,
        params: Tensor | None = None,
        clip: bool = False,
        everywhere: bool = True,
        open_end: bool = False,
    ) -> None:
        check_bank(bank, one_row=params is None)
        each = (
            torch.from_numpy(bank.params[:1])
            if params is None
            else torch.as_tensor(params, dtype=torch.float64)
        )
        check_params(bank, each)
        self.steps, self.channels, self.clients = steps, bank.slots.shape[1], each.shape[0]
        literals = Literals(self.channels, list(each.T))
        unrolling = Unrolling(steps, each[0].tolist(), clip, literals, open_end)
        formula = (
            unrolling.throughout(bank.skeleton) if everywhere else unrolling.at(bank.skeleton, 0)
        )
        self._program = (unrolling.expressions, formula, literals.found)
        self.by_program = False
        self._steady: tuple[ChannelGroup, ...] | None = None
        try:
            self._steady = stepwise_groups(
                unrolling.expressions, formula, literals.found, steps, self.clients
            )
            if self._steady is None:
                self._which, self._parts = _build_parts(
                    unrolling.expressions, formula, literals, steps, self.clients
                )
        except BeyondDiagram:
            self.by_program = True

    @property
    def states(self) -> int:
        """The largest number of states at a step, of any part, which determines the cost; 0 without
        a diagram.
        """
        if self.by_program:
            return 0
        if self._steady is not None:
            return 1
        return max(
            (layer.states for parts in self._parts for part in parts for layer in part.layers),
            default=1,
        )

    def nearest(self, traces: Tensor, client: Tensor | None = None) -> Tensor:
        """The nearest satisfying traces, [B, T, V]; without a gradient.

        Args:
            traces: [B, T, V], finite: unknown values have no nearest number.
            client: int64 [B], the client of each trace, for its parameters; None with one client.

        Under `torch.func.vmap` each call has separate traces [B, T, V]; they are processed in one
        batch.

        The result satisfies the formula when evaluated in the dtype of the traces: values are
        rounded inwards, and a computed comparison (a sum, a number times a channel) gets a margin
        as large as its rounding error in that dtype. An equation of such sums without a tolerance
        has no room for a margin and is satisfied up to rounding.

        Raises:
            SetError: traces of another shape, of whole numbers, or with a number that is unknown or
                infinite; a missing or unknown client.
        """
        check_traces(traces, self.steps, self.channels)
        if client is None and self.clients > 1:
            raise SetError(
                "the formula has different parameters for each client, so the teacher "
                "needs the client of each trace",
                expected="client=, an int64 tensor with one client for each trace",
            )
        owner = (
            torch.zeros(traces.shape[0], dtype=torch.int64, device=traces.device)
            if client is None
            else client
        )
        check_owner(owner, traces.shape[0])
        found: Tensor = _NearestTrace.apply(traces, owner, self)  # type: ignore[no-untyped-call]
        return found

    def moved(self, traces: Tensor, owner: Tensor) -> Tensor:
        """As `nearest`, for traces and clients of the right shapes.

        Raises:
            SetError: an unknown client, a number that is unknown or infinite.
        """
        check_clients(owner, self.clients)
        check_known(traces)
        with library_threads(
            1
        ):  # its tensor operations are too small for several threads; the compiled loops are not
            return self._nearest_batch(traces, owner)

    def _nearest_batch(self, traces: Tensor, owner: Tensor) -> Tensor:
        result = traces.detach().double().clone()
        if self.by_program:
            for row, own in zip(result, owner.tolist(), strict=True):
                row.copy_(
                    torch.from_numpy(
                        milp.solve_nearest(
                            *self._program, row.cpu().numpy(), own, torch.finfo(traces.dtype).eps
                        )
                    )
                )
            return result.to(traces.dtype)
        if self._steady is not None:
            return _at_each_step(self._steady, result, owner, traces.dtype).to(traces.dtype)
        which = self._which.to(traces.device)[:, owner]
        for kind, parts in enumerate(self._parts):
            rows = torch.nonzero(which[0] == kind).squeeze(1)
            for part in parts if len(rows) else ():
                result[rows] = _nearest(part, result[rows], which[1, rows], traces.dtype)
        return result.to(traces.dtype)

    def nearest_in_graph(self, traces: Tensor) -> Tensor:
        """As `nearest` for float64 traces [B, T, V], in tensor operations alone: for
        `torch.export`, which works for every B.

        Raises:
            SetError: the formula has parameters for several clients, or needs mixed-integer
                programming.
        """
        if self.by_program or self.clients > 1:
            raise SetError(
                "the nearest trace cannot be part of an exported graph",
                expected="one client, and a formula without mixed-integer programming",
                received=f"{self.clients} clients"
                if self.clients > 1
                else "a formula that needs mixed-integer programming",
                help="export the model without this correction, or correct traces of one client",
            )
        owner = torch.zeros(traces.shape[0], dtype=torch.int64, device=traces.device)
        if self._steady is not None:
            return _at_each_step(self._steady, traces, owner, torch.float64)
        [parts] = self._parts
        for part in parts:
            traces = _nearest_by_tensors(part, traces, owner, torch.float64)
        return traces

    def distance(self, traces: Tensor, client: Tensor | None = None) -> Tensor:
        """The mean L1 distance to the nearest satisfying trace, [B].

        Its gradient is that of the L1 norm for a constant nearest trace.

        Raises:
            SetError: as `nearest`.
        """
        return (traces - self.nearest(traces, client)).abs().mean((-1, -2))


class _NearestTrace(torch.autograd.Function):
    """`Teacher.nearest`, without a gradient; under `vmap` for all traces at once."""

    @staticmethod
    @override
    def forward(traces: Tensor, owner: Tensor, teacher: Teacher) -> Tensor:
        return teacher.moved(traces, owner)

    @staticmethod
    @override
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    @override
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None, None]:
        return None, None, None

    @staticmethod
    @override
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], traces: Tensor, owner: Tensor, teacher: Teacher
    ) -> tuple[Tensor, int]:
        traces, owner = move_batch_dim_first((traces, owner), in_dims, info.batch_size)
        found: Tensor = _NearestTrace.apply(  # type: ignore[no-untyped-call]  # untyped in torch
            traces.flatten(0, 1), owner.flatten(), teacher
        )
        return found.view_as(traces), 0


def _build_parts(
    expressions: Expressions, formula: int, literals: Literals, steps: int, clients: int
) -> tuple[Tensor, list[tuple[_Part, ...]]]:
    """For each client the kind of its parts and its position among the clients of that kind, int64
    [2, C]; and the parts of each kind.
    """
    pieces = _split_conjuncts(expressions, formula, literals)
    orders = [
        tuple(
            bound_order(literals.found, numbers, client)
            for _, forms in pieces
            for _, numbers in forms
        )
        for client in range(clients)
    ]
    which = torch.zeros((2, clients), dtype=torch.int64)
    kinds: list[tuple[_Part, ...]] = []
    for kind, order in enumerate(dict.fromkeys(orders)):
        own = [client for client in range(clients) if orders[client] == order]
        which[0, own], which[1, own] = kind, torch.arange(len(own))
        parts = []
        for piece, forms in pieces:
            groups = tuple(
                build_group(literals.found, form, numbers, own) for form, numbers in forms
            )
            letters = tuple(product(*(range(len(one.true)) for one in groups)))
            true = tuple(
                frozenset[int]().union(
                    *(one.true[cell] for one, cell in zip(groups, letter, strict=True))
                )
                for letter in letters
            )
            found = build_layers(expressions, piece, steps, true)
            parts.append(
                _Part(groups=groups, letters=letters, layers=found, edges=diagram_edges(found))
            )
        kinds.append(tuple(parts))
    return which, kinds


def _split_conjuncts(
    expressions: Expressions, formula: int, literals: Literals
) -> list[tuple[int, list[tuple[tuple[tuple[int, float], ...], frozenset[int]]]]]:
    """The conjuncts of a formula, grouped by common channels, each group with its linear
    combinations.
    """
    distinct_forms(literals.found, expressions.literals(formula))
    together: list[tuple[set[int], list[int]]] = []
    for part in expressions.parts(formula):
        channels = {
            channel
            for number in expressions.literals(part)
            for channel, _ in literals.found[number].form
        }
        parts = [part]
        for other in [one for one in together if one[0] & channels]:
            together.remove(other)
            channels, parts = channels | other[0], [*other[1], *parts]
        together.append((channels, parts))
    pieces = [expressions.all_of(parts) for channels, parts in together if channels]
    if formula == FALSE:
        raise SetError(
            "no trace satisfies the formula",
            help="`fedkg check` finds rules that contradict each other",
        )
    return [
        (piece, distinct_forms(literals.found, expressions.literals(piece))) for piece in pieces
    ]


def _nearest(part: _Part, traces: Tensor, client: Tensor, dtype: torch.dtype) -> Tensor:
    """The traces, float64 [B, T, V], with one part's channels moved onto the cheapest path, to
    numbers of `dtype`.
    """
    if traces.device.type == "cpu" and can_compile_loops():
        return _looped(part, traces, client, dtype)
    return _nearest_by_tensors(part, traces, client, dtype)


def _nearest_by_tensors(part: _Part, traces: Tensor, client: Tensor, dtype: torch.dtype) -> Tensor:
    """As `_nearest`, by tensor operations, step by step."""
    device = traces.device
    places = [
        torch.tensor([letter[i] for letter in part.letters], device=device)
        for i in range(len(part.groups))
    ]
    groups = [_on(one, device) for one in part.groups]
    best = traces.new_zeros((traces.shape[0], 1))
    taken: list[tuple[Tensor, Tensor, Tensor]] = []
    for step, layer in enumerate(part.layers):
        costs = torch.stack(
            [
                one.cost(traces[:, step], client).index_select(1, place)
                for one, place in zip(groups, places, strict=True)
            ]
        ).sum(0)
        choices = list(dict.fromkeys(edge.letters for edge in layer.edges))
        cheapest_letters = [
            costs[:, list(choice)].min(1) if len(choice) < costs.shape[1] else costs.min(1)
            for choice in choices
        ]
        paid = torch.stack([one.values for one in cheapest_letters], 1)
        letter = torch.stack(
            [
                torch.tensor(choice, device=device)[one.indices]
                for choice, one in zip(choices, cheapest_letters, strict=True)
            ],
            1,
        )
        source = torch.tensor([edge.source for edge in layer.edges], device=device)
        choice = torch.tensor([choices.index(edge.letters) for edge in layer.edges], device=device)
        total = best.index_select(1, source) + paid.index_select(1, choice)
        counts = _counts([edge.target for edge in layer.edges])
        found = [piece.min(1) for piece in torch.split(total, counts, 1)]
        best = torch.stack([one.values for one in found], 1)
        starts = torch.tensor([0, *counts[:-1]], device=device).cumsum(0)
        edge = torch.stack([one.indices for one in found], 1) + starts
        taken.append((source[edge], choice[edge], letter))
    state = torch.zeros((traces.shape[0], 1), dtype=torch.int64, device=device)
    result = traces.clone()
    for step in range(len(part.layers) - 1, -1, -1):
        source, choice, letter = taken[step]
        chosen = letter.gather(1, choice.gather(1, state)).squeeze(1)
        for one, place in zip(groups, places, strict=True):
            result[:, step] = _moved(one, result[:, step], client, place[chosen], dtype)
        state = source.gather(1, state)
    return result


def _looped(part: _Part, traces: Tensor, client: Tensor, dtype: torch.dtype) -> Tensor:
    """As `_nearest`, by compiled loops, with all steps moved at once."""
    from fedkg.kernels.decision_diagram_shortest_path import cheapest_letters

    cells = max(one.low.shape[1] for one in part.groups)
    low, high = (
        np.stack([functional.pad(ends, (0, cells - ends.shape[1])).numpy() for ends in each])
        for each in ([one.low for one in part.groups], [one.high for one in part.groups])
    )
    places = torch.tensor(part.letters).T.contiguous()
    sizes = np.array([one.unit for one in part.groups])
    values = torch.stack([one.value(traces) for one in part.groups], -1)
    letters = torch.from_numpy(
        cheapest_letters(
            part.edges,
            places.numpy(),
            low,
            high,
            sizes,
            values.numpy(),
            client.contiguous().numpy(),
        )
    )
    rows, steps = letters.shape
    moved, owner = traces.reshape(rows * steps, -1), client.repeat_interleave(steps)
    for one, place in zip(part.groups, places, strict=True):
        moved = _moved(one, moved, owner, place[letters.flatten()], dtype)
    return moved.view_as(traces)


def _at_each_step(
    groups: Sequence[ChannelGroup], traces: Tensor, client: Tensor, dtype: torch.dtype
) -> Tensor:
    """The traces, float64 [B, T, V], with each step moved into its cell of each group."""
    rows, steps = traces.shape[:2]
    values, step = traces.flatten(0, 1), torch.arange(steps, device=traces.device).repeat(rows)
    for one in groups:
        values = _moved(
            _on(one, traces.device), values, client.repeat_interleave(steps), step, dtype
        )
    return values.view_as(traces)


def _moved(
    one: ChannelGroup, values: Tensor, client: Tensor, cell: Tensor, dtype: torch.dtype
) -> Tensor:
    """Values [B, V] at one step moved into a cell each, to numbers of `dtype`, by the least amount.

    The literals of the cell are then satisfied in float64 as well as in the dtype of the rules.
    """
    low, high = one.low[client, cell], one.high[client, cell]
    nearest = _into(one, values, low, high, dtype)
    if one.size is None:
        return nearest
    here = one.value(values)
    lost = one.rounding(
        values, client, torch.maximum(low - here, here - high), torch.finfo(dtype).eps
    )
    result = _into(one, values, *_within(low, high, lost), dtype)
    if being_traced():
        return result  # comparing every literal at every step would make exported graphs large
    for better in (nearest, values):
        holds = [
            one.satisfied(better, client, cell, computed)
            for computed in {torch.float64, computing_dtype(values.to(dtype))}
        ]
        result = torch.where(torch.stack(holds).all(0).unsqueeze(-1), better, result)
    return result


def _into(
    one: ChannelGroup, values: Tensor, low: Tensor, high: Tensor, dtype: torch.dtype
) -> Tensor:
    """Values [B, V] with their combination moved between two ends [B], in equal parts by the
    channels with the largest coefficients.
    """
    here, result = one.value(values), values.clone()
    if len(one.form) == 1:
        [(channel, _)] = one.form  # the coefficient is 1
        result[:, channel] = _inward(
            torch.minimum(torch.maximum(here, low), high), low, high, dtype
        )
        return result
    step = torch.relu(low - here) - torch.relu(here - high)
    size = max(abs(weight) for _, weight in one.form)
    movers = [
        (channel, weight) for channel, weight in one.form if abs(weight) >= size * (1 - 1e-12)
    ]
    for channel, weight in movers:
        result[:, channel] = (result[:, channel] + step / (weight * len(movers))).to(dtype)
    return result


def _within(low: Tensor, high: Tensor, by: Tensor) -> tuple[Tensor, Tensor]:
    """The ends of intervals moved inwards, at most to the middle."""
    middle = (low + high) / 2
    narrow = high - low < 2 * by
    return torch.where(narrow, middle, low + by), torch.where(narrow, middle, high - by)


def _inward(values: Tensor, low: Tensor, high: Tensor, dtype: torch.dtype) -> Tensor:
    """Values between two ends as numbers of `dtype`, still between them if possible."""
    if dtype == torch.float64:
        return values  # nothing is rounded
    given = values.to(dtype)
    infinite = torch.full_like(given, torch.inf)
    given = torch.where(given.double() < low, torch.nextafter(given, infinite), given)
    given = torch.where(given.double() > high, torch.nextafter(given, -infinite), given)
    return given.double()


def _on(one: ChannelGroup, device: torch.device) -> ChannelGroup:
    size = None if one.size is None else one.size.to(device)
    return replace(
        one,
        low=one.low.to(device),
        high=one.high.to(device),
        clients=one.clients.to(device),
        size=size,
    )


def _counts(targets: Sequence[int]) -> list[int]:
    """The number of edges to each target; targets are sorted."""
    return np.bincount(np.array(targets)).tolist()  # type: ignore[no-any-return]
