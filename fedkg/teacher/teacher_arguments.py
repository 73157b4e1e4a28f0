"""Checks of the arguments of the teacher: bank, parameters, traces and clients.

Letters: B traces, T steps, V channels, C clients, P parameters.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from fedkg._internal.value_description import describe_value
from fedkg.errors import SetError
from fedkg.pack import Bank, formulas
from fedkg.pack.formulas import Temporal, Until


# `Any`: these functions check values of any type.
def check_bank(bank: Any, *, one_row: bool) -> None:
    """Raise SetError unless the argument is the bank of a formula.

    Args:
        one_row: whether the parameters are those of the bank, which must then have one row.
    """
    if not isinstance(bank, Bank):
        raise SetError(
            "the first argument of a teacher must be the bank of one formula",
            expected="a bank",
            received=type(bank).__name__,
            help="Teacher(pack.banks[0], ...); for a mined inference: "
            "pack.conditions[inference.condition]",
        )
    if one_row and len(bank.params) != 1:
        raise SetError(
            "the bank of a teacher must have one row",
            received=f"{len(bank.params)} rows"
            + (
                ": bound rows of equal form, of one rule or of several, share a bank"
                if len(bank.params)
                else ""
            ),
            help="use a rule with one bound row, compiled alone, or give `params=`; for several "
            "rules, use hard rules in a job",
        )


def check_traces(traces: Any, steps: int, channels: int) -> None:
    """Raise SetError unless traces are floating-point numbers [B, T, V]."""
    expected = f"[B, {steps}, {channels}]: traces, time steps, signals"
    if not isinstance(traces, Tensor):
        help_ = "torch.tensor(traces, dtype=torch.float32)"
        raise SetError(
            "traces must be a tensor", expected=expected, received=type(traces).__name__, help=help_
        )
    if traces.ndim != 3 or traces.shape[1:] != (steps, channels):
        raise SetError(
            "the traces do not fit the formula", expected=expected, received=str(list(traces.shape))
        )
    if not traces.is_floating_point():
        raise SetError(
            "traces must be floating-point numbers",
            expected="float32 or float64",
            received=str(traces.dtype).removeprefix("torch."),
            help="pass traces.float()",
        )


def check_owner(client: Any, rows: int) -> None:
    """Raise SetError unless there is a client for each of `rows` traces."""
    if not isinstance(client, Tensor) or client.dtype != torch.int64 or client.shape != (rows,):
        raise SetError(
            "client= must give the client of each trace",
            expected=f"int64 [{rows}]",
            received=describe_value(client),
        )


def check_params(bank: Bank, params: Tensor) -> None:
    """Raise SetError unless parameters [C, P] fit a formula that can be unrolled once for all
    clients.
    """
    if params.ndim != 2 or params.shape[1] != bank.params.shape[1] or not params.shape[0]:
        expected = f"[C, {bank.params.shape[1]}]"
        raise SetError(
            "params= does not fit the formula",
            expected=f"{expected}: at least one client, and the parameters of the bank",
            received=str(list(params.shape)),
        )
    if bool(params.isnan().any()):
        client = int(params.isnan().any(1).int().argmax())
        raise SetError(
            f"client {client} has a parameter without a value",
            help="leave out clients without mined values",
        )
    windows = [
        part
        for _, part in formulas.everywhere(bank.skeleton)
        if isinstance(part, (Temporal, Until))
    ]
    bounds = params[:, sorted({place for part in windows for place in (part.low, part.high)})]
    differing = torch.nonzero((bounds != bounds[:1]).any(1)).flatten().tolist()
    if differing:
        raise SetError(
            f"client {differing[0]} has different bounds of windows than client 0",
            help="create one teacher for the clients of each choice of bounds",
        )


def check_known(traces: Tensor) -> None:
    """Raise SetError if a number of traces [B, T, V] is unknown or infinite, because it has no
    nearest number.
    """
    known = traces.isfinite()
    if not bool(known.all()):
        row, step, channel = (int(place) for place in torch.nonzero(~known)[0])
        raise SetError(
            f"trace {row} has no number at step {step}, channel {channel}",
            expected="finite numbers: unknown values have no nearest number",
            received=f"{float(traces[row, step, channel])}",
            help="fill the gap (with the previous number, or the forecast), or leave the trace "
            "out: traces[traces.isfinite().all((1, 2))]",
        )


def check_clients(client: Tensor, clients: int) -> None:
    """Raise SetError for a trace of an unknown client."""
    wrong = (client < 0) | (client >= clients)
    if bool(wrong.any()):
        row = int(wrong.int().argmax())
        raise SetError(
            f"the formula has no parameters for the client of trace {row}",
            expected=f"0 .. {clients - 1}",
            received=str(int(client[row])),
        )
