"""Recurrent cells over a stack of clients: a run through time, and the way back through it in closed form.

Each cell runs in two ways. `Cell.run` is the plain one, for automatic differentiation. `Cell.trace` writes into buffers and leaves a trail
on which `Cell.back` finds its way: what does not depend on later steps is multiplied out for all steps at once before the loop, so that
the loop holds a few operations and one matrix product a step.

Letters: C clients of a stack, N steps, B batch, W width of the state, G gates of a cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from fedkg.models.batched_products import has_compiled_loops


@dataclass(frozen=True, slots=True, eq=False)
class CellTrace:
    """What `Cell.trace` leaves behind for the way back.

    Attributes:
        states: from before the first step to after the last, [C, N + 1, B, W].
        gates: after their activations, [C, N, B, G W]; within a step in the cell's own order.
        more: what else the cell needs, each [C, N or N + 1, B, W].
    """

    states: Tensor
    gates: Tensor
    more: tuple[Tensor, ...] = ()

    @property
    def before(self) -> Tensor:
        """The state before each step, [C, N, B, W]."""
        return self.states[:, :-1]


class Cell(Protocol):
    """A recurrent cell; the states before the first step are 0.

    `drive` is what the inputs add to the gates, [C, N, B, G W]; `weight` [C, G W, W] and `bias` [C, G W] are what the state adds.
    """

    @property
    def gates(self) -> int:
        """G."""
        ...

    def run(self, drive: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """The states after each step, [C, N, B, W]; differentiable by autograd."""
        ...

    def trace(self, drive: Tensor, weight: Tensor, bias: Tensor) -> CellTrace:
        """The trail of the same run; writes into `drive`."""
        ...

    def back(self, trail: CellTrace, slope: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Derivatives by `drive`, and by what the state adds to the gates, each [C, N, B, G W]; the same tensor where they are equal.

        The trail is used up: the derivatives may be written over it.

        Args:
            slope: derivative by the states, [C, N, B, W]; or [C, 1, B, W] when it is 0 but for the last state.
        """
        ...


class TanhCell:
    """The plain cell: ``h' = tanh(drive + U h + b)``."""

    gates = 1

    def run(self, drive: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """See `Cell.run`."""
        turned, drive = weight.transpose(1, 2), drive + bias[:, None, None]
        state, states = drive.new_zeros(drive.shape[0], drive.shape[2], weight.shape[2]), []
        for push in drive.unbind(1):
            state = torch.tanh(torch.baddbmm(push, state, turned))
            states.append(state)
        return torch.stack(states, 1)

    def trace(self, drive: Tensor, weight: Tensor, bias: Tensor) -> CellTrace:
        """See `Cell.trace`."""
        if has_compiled_loops(drive):
            return _traced(drive, weight, bias)
        turned, states = weight.transpose(1, 2), _buffer(drive, weight)
        drive += bias[:, None, None]
        for step in range(drive.shape[1]):
            torch.tanh(
                torch.baddbmm(drive[:, step], states[:, step], turned), out=states[:, step + 1]
            )
        return CellTrace(states, states[:, 1:])

    def back(self, trail: CellTrace, slope: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """See `Cell.back`."""
        if has_compiled_loops(slope):
            return _retraced(trail, slope, weight)
        out = torch.addcmul(torch.ones_like(trail.gates), trail.gates, trail.gates, value=-1)
        carried: Tensor | None = None
        for step in reversed(range(out.shape[1])):
            out[:, step].mul_(_add(carried, slope, step, out.shape[1]))
            carried = torch.bmm(out[:, step], weight)
        return out, out


class GRUCell:
    """The gated recurrent unit (Cho and others, 2014), as PyTorch has it: ``r, z`` sigmoid, ``n = tanh(drive_n + r (U_n h + b_n))``,
    ``h' = (1 - z) n + z h``; the order of gates is r, z, n."""

    gates = 3

    def run(self, drive: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """See `Cell.run`."""
        turned, added, width = weight.transpose(1, 2), bias.unsqueeze(1), weight.shape[2]
        state, states = drive.new_zeros(drive.shape[0], drive.shape[2], width), []
        for push in drive.unbind(1):
            own = torch.baddbmm(added, state, turned)
            reset, keep = torch.sigmoid(push[..., : 2 * width] + own[..., : 2 * width]).chunk(2, -1)
            new = torch.tanh(push[..., 2 * width :] + reset * own[..., 2 * width :])
            state = torch.lerp(new, state, keep)
            states.append(state)
        return torch.stack(states, 1)

    def trace(self, drive: Tensor, weight: Tensor, bias: Tensor) -> CellTrace:
        """See `Cell.trace`; more is ``U_n h + b_n``."""
        if has_compiled_loops(drive):
            return _traced(drive, weight, bias)
        turned, added, width = weight.transpose(1, 2), bias.unsqueeze(1), weight.shape[2]
        states, inner = _buffer(drive, weight), drive.new_empty(*drive.shape[:3], width)
        for step in range(drive.shape[1]):
            gates, own = drive[:, step], torch.baddbmm(added, states[:, step], turned)
            inner[:, step] = own[..., 2 * width :]
            gates[..., : 2 * width].add_(own[..., : 2 * width]).sigmoid_()
            reset, keep, new = gates.chunk(3, -1)
            new.addcmul_(reset, inner[:, step]).tanh_()
            torch.lerp(new, states[:, step], keep, out=states[:, step + 1])
        return CellTrace(states, drive, (inner,))

    def back(self, trail: CellTrace, slope: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """See `Cell.back`."""
        if has_compiled_loops(slope):
            return _retraced(trail, slope, weight)
        width, (inner,) = weight.shape[2], trail.more
        reset, keep, new = trail.gates.chunk(3, -1)
        # Per state: the derivative by the pre-activation of n, then what r and z make of it.
        by_new = torch.addcmul(torch.ones_like(new), new, new, value=-1).mul_(1 - keep)
        drives = torch.addcmul(trail.gates, trail.gates, trail.gates, value=-1)
        drives[..., :width].mul_(inner).mul_(by_new)
        drives[..., width : 2 * width].mul_(trail.before - new)
        drives[..., 2 * width :] = by_new
        owns = drives.clone()
        owns[..., 2 * width :].mul_(reset)
        carried: Tensor | None = None
        for step in reversed(range(drives.shape[1])):
            whole = _add(carried, slope, step, drives.shape[1])
            for each in (drives, owns):
                _by_gate(each[:, step], 3).mul_(whole.unsqueeze(2))
            carried = torch.baddbmm(whole * keep[:, step], owns[:, step], weight)
        return drives, owns


class LSTMCell:
    """Long short-term memory (Hochreiter and Schmidhuber, 1997; Gers and others, 2000), as PyTorch has it: gates i, f, g, o;
    ``c' = f c + i g``, ``h' = o tanh(c')``."""

    gates = 4

    def run(self, drive: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """See `Cell.run`."""
        turned, width = weight.transpose(1, 2), weight.shape[2]
        drive = drive + bias[:, None, None]
        state, states = drive.new_zeros(drive.shape[0], drive.shape[2], width), []
        memory = state
        for push in drive.unbind(1):
            own = torch.baddbmm(push, state, turned)
            take, keep = torch.sigmoid(own[..., : 2 * width]).chunk(2, -1)
            memory = keep * memory + take * torch.tanh(own[..., 2 * width : 3 * width])
            state = torch.sigmoid(own[..., 3 * width :]) * torch.tanh(memory)
            states.append(state)
        return torch.stack(states, 1)

    def trace(self, drive: Tensor, weight: Tensor, bias: Tensor) -> CellTrace:
        """See `Cell.trace`; more is c from before the first step to after the last, and tanh(c) after each."""
        if has_compiled_loops(drive):
            return _traced(drive, weight, bias)
        turned, width = weight.transpose(1, 2), weight.shape[2]
        states, memories = _buffer(drive, weight), _buffer(drive, weight)
        shown = drive.new_empty(*drive.shape[:3], width)
        drive += bias[:, None, None]
        for step in range(drive.shape[1]):
            # Not in place: a product into every client's part of a larger tensor would be one product a client.
            own, gates = torch.baddbmm(drive[:, step], states[:, step], turned), drive[:, step]
            torch.sigmoid(own, out=gates)
            take, keep, new, show = gates.chunk(4, -1)
            torch.tanh(own[..., 2 * width : 3 * width], out=new)
            torch.mul(take, new, out=memories[:, step + 1]).addcmul_(keep, memories[:, step])
            torch.mul(
                show, torch.tanh(memories[:, step + 1], out=shown[:, step]), out=states[:, step + 1]
            )
        return CellTrace(states, drive, (memories, shown))

    def back(self, trail: CellTrace, slope: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """See `Cell.back`."""
        if has_compiled_loops(slope):
            return _retraced(trail, slope, weight)
        width, (memories, shown) = weight.shape[2], trail.more
        take, keep, new, show = trail.gates.chunk(4, -1)
        through = torch.addcmul(torch.ones_like(shown), shown, shown, value=-1).mul_(show)
        out = torch.addcmul(trail.gates, trail.gates, trail.gates, value=-1)
        out[..., :width].mul_(new)
        out[..., width : 2 * width].mul_(memories[:, :-1])
        torch.addcmul(take, new * take, new, value=-1, out=out[..., 2 * width : 3 * width])
        out[..., 3 * width :].mul_(shown)
        carried: Tensor | None = None
        inner = torch.zeros_like(shown[:, 0])
        for step in reversed(range(out.shape[1])):
            whole = _add(carried, slope, step, out.shape[1])
            inner.addcmul_(whole, through[:, step])
            _by_gate(out[:, step], 4)[:, :, :3].mul_(inner.unsqueeze(2))
            out[:, step, :, 3 * width :].mul_(whole)
            inner.mul_(keep[:, step])
            carried = torch.bmm(out[:, step], weight)
        return out, out


def _traced(drive: Tensor, weight: Tensor, bias: Tensor) -> CellTrace:
    """`Cell.trace` as a compiled loop; gates stand within a step gate by gate."""
    from fedkg.models.loops.cell_runs import forth

    return CellTrace(*forth(drive, weight, bias))


def _retraced(trail: CellTrace, slope: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """`Cell.back` as a compiled loop."""
    from fedkg.models.loops.cell_runs import back

    return back(trail.gates, slope, weight, trail.states, trail.more)


def _buffer(drive: Tensor, weight: Tensor) -> Tensor:
    """Room for values of N + 1 steps, [C, N + 1, B, W], the first 0."""
    clients, steps, batch = drive.shape[:3]
    room = drive.new_empty(clients, steps + 1, batch, weight.shape[2])
    room[:, 0] = 0
    return room


def _add(carried: Tensor | None, slope: Tensor, step: int, steps: int) -> Tensor:
    """The derivative by the state after a step: what later steps carry back and what comes from outside."""
    if slope.shape[1] == 1 and step < steps - 1:
        assert carried is not None
        return carried
    outside = slope[:, -1 if slope.shape[1] == 1 else step]
    return outside if carried is None else carried.add_(outside)


def _by_gate(gates: Tensor, count: int) -> Tensor:
    """Gates [C, B, G W] as [C, B, G, W], a view."""
    return gates.view(*gates.shape[:2], count, -1)


CELLS: Mapping[str, Cell] = {"rnn": TanhCell(), "gru": GRUCell(), "lstm": LSTMCell()}
"""Cells by the names models give them."""
