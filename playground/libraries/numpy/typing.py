"""Names for annotations, as in `numpy.typing`."""

from typing import Any

from numpy import ndarray

NDArray = ndarray
ArrayLike = Any
