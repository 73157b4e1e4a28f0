"""A data set with mean 0 and standard deviation 1. N samples, F features, H outputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets.dataset import DataSet, Numbers
from fedkg.data.standardise import Moments, Scaling, moments_of

PIECE = 2048
"""Images per chunk when computing mean and deviation."""
MOST = 1 << 25
"""Largest number of values of rows or windows in float64 at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StandardisedDataSet:
    """A data set in standardised units. Inputs are scaled on access, so that large ones are not
    stored twice.

    Attributes:
        source: the data set in source units.
        y: its targets; quantities are standardised by output, unknown ones stay NaN.
        inputs: scaling of the features, or of the channels of images.
        outputs: scaling of the model's outputs; None for classes and yes-or-no. The risk of a
            survival model is not scaled, and neither are its targets.
    """

    source: DataSet
    y: NDArray[np.int64] | NDArray[np.float64]
    inputs: Scaling
    outputs: Scaling | None

    @property
    def data(self) -> DataSet:
        """The whole data set scaled; needs as much memory again as its source."""
        step = max(1, MOST // max(1, int(np.prod(self.source.x.shape[1:]))))
        x: Numbers = np.empty(
            self.source.x.shape,
            dtype=np.float32 if self.source.x.dtype == np.float32 else np.float64,
        )
        for at in range(0, self.source.samples, step):
            x[at : at + step] = self.x(slice(at, at + step))
        return replace(self.source, x=x, y=self.y)

    def x(self, index: slice | NDArray[np.int64]) -> Numbers:
        """Inputs of some samples, standardised by feature, float32 if the source is; unknown ones
        become 0, the mean.

        Pixels are centred by channel too: if all inputs are non-negative, a network with rectifiers
        hardly learns in its first rounds (4,000 images of CIFAR-10, five sites, four rounds of
        FedAvg: the small network reached an accuracy of 0.33 with centred pixels and 0.23 without).
        """
        raw = self.source.x[index]
        if raw.ndim == 4:
            scaled: Numbers = np.subtract(raw, self.inputs.mean[:, None, None], dtype=raw.dtype)
            np.divide(scaled, self.inputs.std[:, None, None], out=scaled, dtype=raw.dtype)
            return scaled
        found = self.inputs.apply(raw.astype(np.float64))
        return found.astype(np.float32) if raw.dtype == np.float32 else found

    def quantities(self, answers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Convert model outputs [N, H] to source units."""
        if self.outputs is None:
            return answers
        steps = answers.reshape(-1, len(self.outputs.names))
        return np.asarray(steps * self.outputs.std + self.outputs.mean, dtype=np.float64).reshape(
            answers.shape
        )


def standardise(data: DataSet) -> StandardisedDataSet:
    """Scale a data set by the statistics of its training samples (of all samples if it has no test
    set).

    Raises:
        JobError: a feature or an output has no known value among them.
    """
    train = np.ones(data.samples, dtype=bool) if data.test is None else ~data.test
    index = np.flatnonzero(train)
    outputs = output_moments(data, index)
    return scale(
        data,
        input_moments(data, index).scaling(data.features, where=data.name),
        None if outputs is None else outputs.scaling(output_names(data), where=data.name),
    )


def scale(data: DataSet, inputs: Scaling, outputs: Scaling | None) -> StandardisedDataSet:
    """A data set with a given scaling of its features, and of its targets if they are numbers."""
    y = data.y
    if data.task == "survival":
        risk = Scaling(names=output_names(data), mean=np.zeros(1), std=np.ones(1))
        return StandardisedDataSet(source=data, y=y, inputs=inputs, outputs=risk)
    if outputs is not None:
        columns = data.y.astype(np.float64).reshape(-1, len(outputs.names))
        y = ((columns - outputs.mean) / outputs.std).reshape(data.y.shape)
    return StandardisedDataSet(source=data, y=y, inputs=inputs, outputs=outputs)


def output_names(data: DataSet) -> tuple[str, ...]:
    """Names of the numbers to predict: forecast features, or the task."""
    return data.targets or ("risk" if data.task == "survival" else data.task,)


def input_moments(data: DataSet, index: NDArray[np.int64]) -> Moments:
    """Moments of the features (of images: channels) of the samples at `index`."""
    return moments_of(_pieces(data, index), len(data.features))


def output_moments(data: DataSet, index: NDArray[np.int64]) -> Moments | None:
    """Moments of the targets of the samples at `index`; None for classes, yes-or-no, survival."""
    if data.task not in ("regression", "forecast"):
        return None
    names = output_names(data)
    targets = data.y[index].astype(np.float64).reshape(-1, len(names))
    return moments_of([targets], len(names))


def _pieces(data: DataSet, rows: NDArray[np.int64]) -> Iterator[NDArray[np.float64]]:
    """Inputs of samples as float64 [.., F] in chunks, to limit the memory."""
    if data.x.ndim == 4:
        for places in np.array_split(rows, -(-len(rows) // PIECE)):
            yield np.moveaxis(data.x[places], 1, -1).reshape(-1, data.x.shape[1]).astype(np.float64)
        return
    step = max(1, MOST // max(1, int(np.prod(data.x.shape[1:]))))
    for at in range(0, max(1, len(rows)), step):
        yield data.x[rows[at : at + step]].reshape(-1, data.x.shape[-1]).astype(np.float64)
