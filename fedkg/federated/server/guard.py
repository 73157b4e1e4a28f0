"""The check of updates before aggregation: unusable updates are left out, by name and with the
reason.

Letters: C clients of a stack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fedkg.federated.client_axis_broadcasting import per_client
from fedkg.federated.client_state_store import ClientRows
from fedkg.federated.executors.protocol import Updates
from fedkg.models.model_protocols import Params


def usable(updates: Updates) -> Updates:
    """Return the updates without those that contain NaN or infinity; `rejected` lists these with
    the parameter.

    A client that would remember such a value is left out too: it keeps what it remembered before.
    """
    sent = updates.update | updates.shared | updates.client_memory
    suspicious = ~torch.isfinite(_sums(sent, len(updates.clients), updates.clients.device))
    if not bool(suspicious.any()):
        return updates
    reasons = {
        place: _not_finite({name: value[place] for name, value in sent.items()})
        for place in suspicious.nonzero().flatten().tolist()
    }
    return leave_out(updates, {place: reason for place, reason in reasons.items() if reason})


def leave_out(updates: Updates, reasons: Mapping[int, str]) -> Updates:
    """The updates without those with a reason, by position in the stack; `rejected` then lists
    them.
    """
    places = updates.clients.tolist()
    keep = torch.tensor(
        [place not in reasons for place in range(len(places))],
        dtype=torch.bool,
        device=updates.clients.device,
    )
    rejected = updates.rejected | {places[place]: reason for place, reason in reasons.items()}
    return replace(updates.take(keep), rejected=rejected)


def finite(params: Params) -> bool:
    """Whether all parameters [G, ...] are finite numbers."""
    held = len(next(iter(params.values())))
    if bool(torch.isfinite(_sums(params, held, next(iter(params.values())).device)).all()):
        return True
    return all(bool(torch.isfinite(value).all()) for value in params.values())


def _sums(stack: Params, clients: int, device: torch.device) -> Tensor:
    """A number for each client, [C], which is finite when all of its values are, unless they
    overflow: one that is not raises suspicion.
    """
    total = torch.zeros(clients, dtype=torch.float64, device=device)
    for value in stack.values():
        total += value.flatten(1).sum(1) if value.dim() > 1 else value
    return total


def untold(updates: Updates, before: Mapping[str, ClientRows]) -> Updates:
    """Return the updates; non-finite client memory is replaced by the previous memory, because
    under privacy it must not show.

    What is trained beside a protected model (Ditto's own) is not noised: an update that were left
    out for it would tell of the data.
    """
    wrong = torch.zeros(len(updates.clients), dtype=torch.bool, device=updates.clients.device)
    for value in updates.client_memory.values():
        wrong |= ~value.isfinite().flatten(1).all(1)
    if not bool(wrong.any()):
        return updates
    kept = {
        name: torch.where(per_client(wrong, value), before[name][updates.clients], value)
        for name, value in updates.client_memory.items()
    }
    return replace(updates, client_memory=kept)


def stack(
    like: Params, sent: Sequence[tuple[int, Mapping[str, Tensor]]]
) -> tuple[tuple[int, ...], Params, dict[int, str]]:
    """Updates that arrive one by one, as one stack.

    Args:
        like: shapes and types that are expected, without a client dimension.
        sent: the position of each client and what it sent.

    Returns:
        The positions of the clients in the stack, the stack (each [C, ...]), and why others are not
        in it.
    """
    rejected = {client: reason for client, update in sent if (reason := _misfit(like, update))}
    good = [(client, update) for client, update in sent if client not in rejected]
    stacked = {
        name: torch.stack([update[name].to(value.dtype) for _, update in good])
        if good
        else value.new_zeros((0, *value.shape))
        for name, value in like.items()
    }
    return tuple(client for client, _ in good), stacked, rejected


def _misfit(like: Params, update: Mapping[str, Tensor]) -> str:
    missing, extra = sorted(set(like) - set(update)), sorted(set(update) - set(like))
    if missing:
        return f"its update lacks {', '.join(missing)}"
    if extra:
        return f"its update has unknown parameters {', '.join(extra)}"
    for name, value in like.items():
        got = update[name]
        if got.shape != value.shape:
            return (
                f"its update of {name} has shape {list(got.shape)} instead of {list(value.shape)}"
            )
        if not got.is_floating_point():
            return f"its update of {name} is of {got.dtype} instead of {value.dtype}"
    return ""


def _not_finite(update: Params) -> str:
    for name, value in update.items():
        wrong = int((~torch.isfinite(value)).sum())
        if wrong:
            what = "NaN" if bool(torch.isnan(value).any()) else "infinite values"
            return f"its update has {what} in {name} ({wrong} of {value.numel()} values)"
    return ""
