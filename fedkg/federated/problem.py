"""What is to be learnt: the clients' data, the model, the loss, and the rules that updates are
judged by.

Letters: N clients in all, n_k samples of client k, S samples of all clients together, F features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from fedkg.errors import JobError
from fedkg.federated.attacks import Attack
from fedkg.federated.client.task_losses import Loss
from fedkg.federated.server.scoring import Scorer
from fedkg.models.model_protocols import Model

NOWHERE = torch.iinfo(torch.int64).min // 2
"""The position of rows that are not here: no index reaches it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Clients:
    """The clients and their private data.

    Args:
        names: one per client, all different.
        x: per client [n_k, F] (or more dimensions), floating point of one type.
        y: per client [n_k] or [n_k, H].
        keys: codes of categories (machine, product type) that rules select rows by and the model
            does not read: by column, per client int64 [n_k].
        counts: n_k of each client where some clients keep their data elsewhere. These have no rows
            in `x`, `y` and `keys`: their tensors state type and shape alone. None: all data are
            here.

    Raises:
        JobError: if the data of a client is empty or does not fit the others; names the client.
    """

    names: tuple[str, ...]
    x: tuple[Tensor, ...]
    y: tuple[Tensor, ...]
    keys: Mapping[str, tuple[Tensor, ...]] = field(default_factory=dict)
    counts: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not self.names:
            raise JobError("there are no clients", help="give at least one client with samples")
        if not len(self.names) == len(self.x) == len(self.y):
            counts = f"{len(self.names)} names, {len(self.x)} inputs, {len(self.y)} targets"
            raise JobError("each client needs a name, inputs and targets", received=counts)
        if len(set(self.names)) < len(self.names):
            twice = next(name for i, name in enumerate(self.names) if name in self.names[:i])
            raise JobError(f"two clients are called {twice}", help="give each client its own name")
        if self.counts is not None and (
            len(self.counts) != len(self.names) or min(self.counts) < 1
        ):
            low = next((place for place, count in enumerate(self.counts) if count < 1), None)
            raise JobError(
                "`counts` must have the number of samples of each client, at least 1",
                expected=f"{len(self.names)} numbers",
                received=f"{len(self.counts)} numbers"
                if low is None
                else f"{self.counts[low]} at position {low}",
            )
        rows = tuple(int(x.shape[0]) for x in self.x)
        for place, (name, x, y) in enumerate(zip(self.names, self.x, self.y, strict=True)):
            elsewhere = self.counts is not None and rows[place] == 0
            _check(name, x, y, self.names[0], self.x[0], self.y[0], elsewhere=elsewhere)
            if self.counts is not None and rows[place] not in (0, self.counts[place]):
                raise JobError(
                    f"client {name} must have all of its samples in this process, or none",
                    expected=f"{self.counts[place]} samples, as `counts` states, or 0",
                    received=f"{rows[place]} samples",
                )
        for column, codes in self.keys.items():
            if len(codes) != len(rows):
                raise JobError(
                    f"the category `{column}` in `keys` must have codes for each client",
                    expected=f"codes of {len(rows)} clients",
                    received=f"codes of {len(codes)}",
                )
            for name, code, count in zip(self.names, codes, rows, strict=True):
                if len(code) != count:
                    raise JobError(
                        f"the category `{column}` in `keys` must have one code for each sample of "
                        f"client {name}",
                        expected=f"{count} codes",
                        received=f"{len(code)} codes",
                    )

    @cached_property
    def samples(self) -> tuple[int, ...]:
        """n_k of every client; counted once, since a federation may have 100,000 of them."""
        return self.counts or tuple(int(x.shape[0]) for x in self.x)

    @cached_property
    def elsewhere(self) -> Mapping[int, str]:
        """Position and name of each client that keeps its data elsewhere."""
        if self.counts is None:
            return {}
        return {
            place: name
            for place, (name, x) in enumerate(zip(self.names, self.x, strict=True))
            if not len(x)
        }

    def only(self, here: str | None) -> Clients:
        """The same clients with the data of one of them, or of none: what a site, or the server,
        has of them.
        """
        kept = [len(self.x[place]) if name == here else 0 for place, name in enumerate(self.names)]
        return Clients(
            names=self.names,
            x=tuple(x[:count] for x, count in zip(self.x, kept, strict=True)),
            y=tuple(y[:count] for y, count in zip(self.y, kept, strict=True)),
            keys={
                column: tuple(code[:count] for code, count in zip(codes, kept, strict=True))
                for column, codes in self.keys.items()
            },
            counts=self.samples,
        )


def _check(
    name: str,
    x: Tensor,
    y: Tensor,
    first: str,
    first_x: Tensor,
    first_y: Tensor,
    *,
    elsewhere: bool,
) -> None:
    if x.dim() < 2 or (x.shape[0] == 0 and not elsewhere):
        raise JobError(
            f"client {name} has no samples, or its inputs have no feature dimension",
            expected="inputs [samples, features]",
            received=str(list(x.shape)),
        )
    if not x.is_floating_point():
        raise JobError(
            f"inputs of client {name} must be floating-point numbers",
            received=str(x.dtype),
            help="convert them, for example with `x.float()`",
        )
    if y.dim() < 1 or y.shape[0] != x.shape[0]:
        received = f"{x.shape[0]} inputs, targets {list(y.shape)}"
        raise JobError(f"client {name} must have one target for each input", received=received)
    for what, mine, theirs in (("inputs", x, first_x), ("targets", y, first_y)):
        if mine.shape[1:] != theirs.shape[1:] or mine.dtype != theirs.dtype:
            raise JobError(
                f"{what} of client {name} have another shape or type than those of client {first}",
                expected=f"[{', '.join(('samples', *map(str, theirs.shape[1:])))}] of "
                f"{theirs.dtype}",
                received=f"{list(mine.shape)} of {mine.dtype}",
            )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """A task for a federation.

    Attributes:
        model: the model to train.
        loss: the loss of the task.
        clients: the clients with their data.
        scorer: scores updates by the rules on the server's probe rows; None without rules.
        server_data: labelled rows of the server, as one client, for aggregation rules that compare
            updates with the server's own update; or None.
        attack: what some clients do instead of honest work, in a simulation; or None.
    """

    model: Model
    loss: Loss
    clients: Clients
    scorer: Scorer | None = None
    server_data: Clients | None = None
    attack: Attack | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Pool:
    """All clients' data end to end, built once, so that fedkg reads the rows of any set of clients
    in one operation.

    Attributes:
        x: [S + 1, F, ...], the features. The last row is 0: it replaces the missing samples of a
            padded batch.
        y: [S + 1] or [S + 1, H] for H targets of a sample; 0 in the last row.
        keys: int64 [S + 1] by column, the category codes; -1 in the last row.
        sizes: int64 [N], n_k.
        offsets: int64 [N], the position of each client's first row; for clients that keep their
            data elsewhere one that no row has, so that reading there fails.
        elsewhere: position and name of these clients.
    """

    x: Tensor
    y: Tensor
    keys: Mapping[str, Tensor]
    sizes: Tensor
    offsets: Tensor
    elsewhere: Mapping[int, str] = field(default_factory=dict)

    def first_rows(self, clients: Tensor) -> Tensor:
        """The position of the first row of clients, int64 of any shape; shaped as they are.

        Raises:
            JobError: a client keeps its data elsewhere.
        """
        if self.elsewhere:
            absent = [one for one in clients.flatten().tolist() if one in self.elsewhere]
            if absent:
                raise JobError(
                    f"the samples of {self.elsewhere[absent[0]]} are not here: they stay at its"
                    " site",
                    help="train this client at its site, see fedkg.deploy.remote_sites",
                )
        return self.offsets[clients]

    def share(self, clients: Tensor) -> Tensor:
        """The samples of clients (int64 [C]) as shares of all samples, float64 [C]."""
        return self.sizes[clients].to(torch.float64) / float(self.sizes.sum())


def pool(clients: Clients) -> Pool:
    """The clients' data end to end; inputs that lie so in memory already, with a row of zeros
    behind them, are not copied.
    """
    x, y = clients.x, clients.y
    sizes = torch.tensor(clients.samples, dtype=torch.int64, device=x[0].device)
    rows = torch.tensor([len(one) for one in x], dtype=torch.int64, device=x[0].device)
    offsets = torch.cumsum(rows, 0) - rows
    if clients.elsewhere:
        offsets[list(clients.elsewhere)] = NOWHERE
        x = tuple(one for one in x if len(one)) or x[:1]
        y = tuple(one for one in y if len(one)) or y[:1]
    return Pool(
        x=_with_zeros(x),
        y=torch.cat([*y, y[0].new_zeros((1, *y[0].shape[1:]))]),
        keys={
            column: torch.cat([*codes, codes[0].new_full((1,), -1)])
            for column, codes in clients.keys.items()
        },
        sizes=sizes,
        offsets=offsets,
        elsewhere=clients.elsewhere,
    )


def gathered(problem: Problem) -> Problem:
    """The problem with all clients' samples in the hands of one, who is called ``all``."""
    data = problem.clients
    keys = {column: (torch.cat(codes),) for column, codes in data.keys.items()}
    one = Clients(names=("all",), x=(_end_to_end(data.x),), y=(torch.cat(data.y),), keys=keys)
    return replace(problem, clients=one)


def _end_to_end(parts: Sequence[Tensor]) -> Tensor:
    """Rows of all parts: a view where each begins behind the one before in one memory, else a
    copy.
    """
    found = _seen(parts, 0)
    return torch.cat(list(parts)) if found is None else found


def _with_zeros(parts: Sequence[Tensor]) -> Tensor:
    """The same with a row of zeros behind them."""
    found = _seen(parts, 1)
    if found is None or bool(found[-1].any()):
        return torch.cat([*parts, parts[0].new_zeros((1, *parts[0].shape[1:]))])
    return found


def _seen(parts: Sequence[Tensor], more: int) -> Tensor | None:
    """Return all parts and `more` rows after them as one view, or None if they are not
    contiguous.
    """
    first = parts[0]
    if (
        not len(first) or first.device.type != "cpu"
    ):  # each part was moved separately, into separate memory
        return None
    memory, row, rows = first.untyped_storage(), first[0].numel(), 0
    for part in parts:
        if not part.is_contiguous() or part.untyped_storage().data_ptr() != memory.data_ptr():
            return None
        if part.storage_offset() != first.storage_offset() + rows * row:
            return None
        rows += len(part)
    if (first.storage_offset() + (rows + more) * row) * first.element_size() > memory.nbytes():
        return None
    return first.as_strided((rows + more, *first.shape[1:]), first.stride(), first.storage_offset())
