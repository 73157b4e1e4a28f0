"""From a data set and a split to the clients of a federation. N samples, F features, H outputs."""

from __future__ import annotations

import numpy as np
import torch

from fedkg.data.partition import Split
from fedkg.data.sets.dataset import DataSet
from fedkg.errors import JobError
from fedkg.federated.problem import Clients


def clients_of(data: DataSet, split: Split, *, dtype: torch.dtype = torch.float32) -> Clients:
    """One client for each site, in the order of the split: inputs [n_k, ...] and targets [n_k] or
    [n_k, H] of `dtype`, class numbers int64.

    Sites without a sample are left out. All inputs must be known (`fedkg.data.sets.standardise`
    fills unknown ones). Targets may be NaN if the loss supports it.

    Raises:
        JobError: the split has another number of samples, no site has a sample, or an input is
            unknown.
    """
    if len(split.owner) != data.samples:
        received = f"a split of {len(split.owner)} samples"
        raise JobError(
            f"the split was made for another data set than {data.name}",
            expected=f"a split of {data.samples} samples",
            received=received,
        )
    if np.isnan(data.x).any():
        raise JobError(
            f"data set {data.name}: {int(np.isnan(data.x).sum())} inputs are unknown (NaN), and"
            " models read numbers only",
            help="call `standardise(data)`, which replaces unknown inputs by the mean",
        )
    sites = [(name, rows) for name, rows in zip(split.sites, split.index, strict=True) if len(rows)]
    kind = torch.int64 if data.task == "classes" else dtype
    return Clients(
        names=tuple(name for name, _ in sites),
        x=tuple(torch.from_numpy(data.x[rows]).to(dtype) for _, rows in sites),
        y=tuple(torch.from_numpy(data.y[rows]).to(kind) for _, rows in sites),
    )
