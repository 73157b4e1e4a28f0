"""A data set brought to mean 0 and standard deviation 1, as models read it. N samples, F features, H outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets.record import DataSet, Numbers
from fedkg.data.standardise import Scaling, pooled


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Standardised:
    """A data set as models read it.

    Attributes:
        data: x standardised by feature, unknown inputs at the mean, 0; y, where it is a quantity, by what it is of, unknown ones NaN.
        inputs: of the features; None for images, which stay in 0 .. 1. outputs: of y; None for classes and yes-or-no.
    """

    data: DataSet
    inputs: Scaling | None
    outputs: Scaling | None

    def quantities(self, answers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Answers of a model [N, H] in the units of the source."""
        if self.outputs is None:
            return answers
        steps = answers.reshape(-1, len(self.outputs.names))
        return np.asarray(steps * self.outputs.std + self.outputs.mean, dtype=np.float64).reshape(answers.shape)


def standardised(data: DataSet) -> Standardised:
    """The data set scaled by what its training samples (all, where the source sets no test aside) say.

    Raises:
        JobError: when a feature or an output has no known value among them.
    """
    train = np.ones(data.samples, dtype=bool) if data.test is None else ~data.test
    inputs = outputs = None
    x: Numbers = data.x
    y = data.y
    if data.x.ndim < 4:
        inputs = pooled([data.x[train].reshape(-1, data.x.shape[-1]).astype(np.float64)], data.features, where=data.name)
        scaled = inputs.apply(data.x.astype(np.float64))
        x = scaled.astype(np.float32) if data.x.dtype == np.float32 else scaled
    if data.task in ("regression", "forecast"):
        names = data.targets or (data.task,)
        columns = data.y.astype(np.float64).reshape(-1, len(names))
        outputs = pooled([data.y[train].astype(np.float64).reshape(-1, len(names))], names, where=data.name)
        y = ((columns - outputs.mean) / outputs.std).reshape(data.y.shape)
    return Standardised(data=replace(data, x=x, y=y), inputs=inputs, outputs=outputs)
