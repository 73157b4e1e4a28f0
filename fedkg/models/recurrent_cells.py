"""Recurrent cells over a stack of clients: forward through time, and backward in closed form.

Each cell has two forward passes. `Cell.run` is for automatic differentiation. `Cell.trace` writes
into buffers and returns a trace for `Cell.backward`: products that do not depend on later steps are
computed for all steps at once before the loop, so the loop has a few operations and one matrix
product per step.

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
    """The values of a forward pass that `Cell.backward` needs.

    Attributes:
        states: from before the first step to after the last, [C, N + 1, B, W].
        gates: after their activations, [C, N, B, G W]; within a step in the order of the cell.
        more: further values of the cell, each [C, N or N + 1, B, W].
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

    `drive` is the contribution of the inputs to the gates, [C, N, B, G W]; `weight` [C, G W, W] and
    `bias` [C, G W] define the contribution of the state.
    """

    @property
    def gates(self) -> int:
        """Number of gates, G."""
        ...

    def run(self, drive: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """The states after each step, [C, N, B, W]; differentiable by autograd."""
        ...

    def trace(self, drive: Tensor, weight: Tensor, bias: Tensor) -> CellTrace:
        """The trace of the same forward pass; overwrites `drive`."""
        ...

    def backward(self, trail: CellTrace, gradient: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """Derivatives by `drive`, and by the contribution of the state to the gates, each [C, N, B,
        G W].

        The two are the same tensor if they are equal. The derivatives may overwrite the trace.

        Args:
            gradient: derivative by the states, [C, N, B, W]; or [C, 1, B, W] if only the last state
                has one.
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
            return _trace_compiled(drive, weight, bias)
        turned, states = weight.transpose(1, 2), _buffer(drive, weight)
        drive += bias[:, None, None]
        for step in range(drive.shape[1]):
            torch.tanh(
                torch.baddbmm(drive[:, step], states[:, step], turned), out=states[:, step + 1]
            )
        return CellTrace(states, states[:, 1:])

    def backward(self, trail: CellTrace, gradient: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """See `Cell.backward`."""
        if has_compiled_loops(gradient):
            return _backward_compiled(trail, gradient, weight)
        out = torch.addcmul(torch.ones_like(trail.gates), trail.gates, trail.gates, value=-1)
        carried: Tensor | None = None
        for step in reversed(range(out.shape[1])):
            out[:, step].mul_(_add(carried, gradient, step, out.shape[1]))
            carried = torch.bmm(out[:, step], weight)
        return out, out


class GRUCell:
    """The gated recurrent unit (Cho and others, 2014), in PyTorch's form, with gates r, z, n.

    ``r, z`` sigmoid, ``n = tanh(drive_n + r (U_n h + b_n))``, ``h' = (1 - z) n + z h``.
    """

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
        """See `Cell.trace`; `more` is ``U_n h + b_n``."""
        if has_compiled_loops(drive):
            return _trace_compiled(drive, weight, bias)
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

    def backward(self, trail: CellTrace, gradient: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """See `Cell.backward`."""
        if has_compiled_loops(gradient):
            return _backward_compiled(trail, gradient, weight)
        width, (inner,) = weight.shape[2], trail.more
        reset, keep, new = trail.gates.chunk(3, -1)
        # Per state: the derivative by the pre-activation of n, then its products with r and z.
        by_new = torch.addcmul(torch.ones_like(new), new, new, value=-1).mul_(1 - keep)
        drives = torch.addcmul(trail.gates, trail.gates, trail.gates, value=-1)
        drives[..., :width].mul_(inner).mul_(by_new)
        drives[..., width : 2 * width].mul_(trail.before - new)
        drives[..., 2 * width :] = by_new
        owns = drives.clone()
        owns[..., 2 * width :].mul_(reset)
        carried: Tensor | None = None
        for step in reversed(range(drives.shape[1])):
            whole = _add(carried, gradient, step, drives.shape[1])
            for each in (drives, owns):
                _by_gate(each[:, step], 3).mul_(whole.unsqueeze(2))
            carried = torch.baddbmm(whole * keep[:, step], owns[:, step], weight)
        return drives, owns


class LSTMCell:
    """Long short-term memory, in PyTorch's form, with gates i, f, g, o.

    ``c' = f c + i g``, ``h' = o tanh(c')``. Source: Hochreiter and Schmidhuber, 1997; Gers and
    others, 2000.
    """

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
        """See `Cell.trace`; `more` is c from before the first step to after the last, and tanh(c)
        after each.
        """
        if has_compiled_loops(drive):
            return _trace_compiled(drive, weight, bias)
        turned, width = weight.transpose(1, 2), weight.shape[2]
        states, memories = _buffer(drive, weight), _buffer(drive, weight)
        shown = drive.new_empty(*drive.shape[:3], width)
        drive += bias[:, None, None]
        for step in range(drive.shape[1]):
            # Not in place: a product into a slice of a larger tensor runs as one per client.
            own, gates = torch.baddbmm(drive[:, step], states[:, step], turned), drive[:, step]
            torch.sigmoid(own, out=gates)
            take, keep, new, show = gates.chunk(4, -1)
            torch.tanh(own[..., 2 * width : 3 * width], out=new)
            torch.mul(take, new, out=memories[:, step + 1]).addcmul_(keep, memories[:, step])
            torch.mul(
                show, torch.tanh(memories[:, step + 1], out=shown[:, step]), out=states[:, step + 1]
            )
        return CellTrace(states, drive, (memories, shown))

    def backward(self, trail: CellTrace, gradient: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        """See `Cell.backward`."""
        if has_compiled_loops(gradient):
            return _backward_compiled(trail, gradient, weight)
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
            whole = _add(carried, gradient, step, out.shape[1])
            inner.addcmul_(whole, through[:, step])
            _by_gate(out[:, step], 4)[:, :, :3].mul_(inner.unsqueeze(2))
            out[:, step, :, 3 * width :].mul_(whole)
            inner.mul_(keep[:, step])
            carried = torch.bmm(out[:, step], weight)
        return out, out


def _trace_compiled(drive: Tensor, weight: Tensor, bias: Tensor) -> CellTrace:
    """`Cell.trace` as a compiled loop; within a step, the values of each gate are contiguous."""
    from fedkg.models.compiled_recurrent_cells import forward

    return CellTrace(*forward(drive, weight, bias))


def _backward_compiled(trail: CellTrace, gradient: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """`Cell.backward` as a compiled loop."""
    from fedkg.models.compiled_recurrent_cells import backward

    return backward(trail.gates, gradient, weight, trail.states, trail.more)


def _buffer(drive: Tensor, weight: Tensor) -> Tensor:
    """A buffer for values of N + 1 steps, [C, N + 1, B, W], with 0 for the first."""
    clients, steps, batch = drive.shape[:3]
    room = drive.new_empty(clients, steps + 1, batch, weight.shape[2])
    room[:, 0] = 0
    return room


def _add(carried: Tensor | None, gradient: Tensor, step: int, steps: int) -> Tensor:
    """The derivative by the state after a step: from later steps, plus from outside."""
    if gradient.shape[1] == 1 and step < steps - 1:
        assert carried is not None
        return carried
    outside = gradient[:, -1 if gradient.shape[1] == 1 else step]
    return outside if carried is None else carried.add_(outside)


def _by_gate(gates: Tensor, count: int) -> Tensor:
    """Gates [C, B, G W] as [C, B, G, W], a view."""
    return gates.view(*gates.shape[:2], count, -1)


CELLS: Mapping[str, Cell] = {"rnn": TanhCell(), "gru": GRUCell(), "lstm": LSTMCell()}
"""Cells by their names in models."""
