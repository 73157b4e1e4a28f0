"""A data set brought to mean 0 and standard deviation 1, as models read it. N samples, F features, H outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets.record import DataSet, Numbers
from fedkg.data.standardise import Scaling, pooled

PIECE = 2048
"""Images whose mean and deviation are taken together."""
MOST = 1 << 25
"""Numbers of rows or windows that are held in float64 at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standardised:
    """A data set as models read it.

    Attributes:
        data: x standardised by feature, unknown inputs at the mean, 0; y, where it is a quantity, by what it is of, unknown ones NaN.
        inputs: of the features, of images of their channels. outputs: of y; None for classes and yes-or-no.
    """

    data: DataSet
    inputs: Scaling
    outputs: Scaling | None

    def quantities(self, answers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Answers of a model [N, H] in the units of the source."""
        if self.outputs is None:
            return answers
        steps = answers.reshape(-1, len(self.outputs.names))
        return np.asarray(steps * self.outputs.std + self.outputs.mean, dtype=np.float64).reshape(answers.shape)


def standardised(data: DataSet) -> Standardised:
    """The data set scaled by what its training samples (all, where the source sets no test aside) say.

    Pixels are brought to mean 0 by channel too: with all inputs at or above 0 a network of rectifiers hardly learns in its first rounds (on
    4,000 images of CIFAR-10, five sites and four rounds of FedAvg, the small network came to 0.33 correct in place of 0.23).

    Raises:
        JobError: when a feature or an output has no known value among them.
    """
    train = np.ones(data.samples, dtype=bool) if data.test is None else ~data.test
    outputs, y = None, data.y
    x: Numbers
    if data.x.ndim == 4:
        inputs, x = _by_channel(data, train)
    else:
        inputs, x = _by_feature(data, train)
    if data.task in ("regression", "forecast"):
        names = data.targets or (data.task,)
        columns = data.y.astype(np.float64).reshape(-1, len(names))
        outputs = pooled([data.y[train].astype(np.float64).reshape(-1, len(names))], names, where=data.name)
        y = ((columns - outputs.mean) / outputs.std).reshape(data.y.shape)
    return Standardised(data=replace(data, x=x, y=y), inputs=inputs, outputs=outputs)


def _by_feature(data: DataSet, train: NDArray[np.bool_]) -> tuple[Scaling, Numbers]:
    """Rows or windows with their features standardised, a piece at a time."""
    step = max(1, MOST // max(1, int(np.prod(data.x.shape[1:]))))
    rows, width = np.flatnonzero(train), data.x.shape[-1]
    pieces = (data.x[rows[at : at + step]].reshape(-1, width).astype(np.float64) for at in range(0, max(1, len(rows)), step))
    inputs = pooled(pieces, data.features, where=data.name)
    scaled: Numbers = np.empty(data.x.shape, dtype=np.float32 if data.x.dtype == np.float32 else np.float64)
    for at in range(0, data.samples, step):
        scaled[at : at + step] = inputs.apply(data.x[at : at + step].astype(np.float64))
    return inputs, scaled


def _by_channel(data: DataSet, train: NDArray[np.bool_]) -> tuple[Scaling, Numbers]:
    """Images with their channels standardised, a piece at a time: as float64 all of them would not fit a small memory."""
    pieces = (data.x[place] for place in np.array_split(np.flatnonzero(train), -(-int(train.sum()) // PIECE)))
    columns = (np.moveaxis(piece, 1, -1).reshape(-1, piece.shape[1]).astype(np.float64) for piece in pieces)
    inputs = pooled(columns, data.features, where=data.name)
    scaled: Numbers = np.subtract(data.x, inputs.mean[:, None, None], dtype=data.x.dtype)
    np.divide(scaled, inputs.std[:, None, None], out=scaled, dtype=data.x.dtype)
    return inputs, scaled
