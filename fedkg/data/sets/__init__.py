"""Data sets by name, read from a path or generated with the same form."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fedkg._internal.name_matching import nearest_name
from fedkg.data.sets.bosch import generate_bosch, load_bosch
from fedkg.data.sets.cmapss import generate_cmapss, load_cmapss
from fedkg.data.sets.dataset import DataSet, Task
from fedkg.data.sets.images import (
    CLOTHES,
    DIGITS,
    THINGS,
    generate_images,
    load_cifar10,
    load_fashion,
    load_mnist,
)
from fedkg.data.sets.public_tables import (
    generate_ai4i,
    generate_covtype,
    generate_secom,
    load_ai4i,
    load_covtype,
    load_secom,
)
from fedkg.data.sets.scaled_dataset import StandardisedDataSet, standardise
from fedkg.data.sets.series_windows import forecast_windows, labelled_windows, series
from fedkg.data.sets.sumo import generate_sumo, load_sumo
from fedkg.data.sets.survival import generate_tcga_brca, load_tcga_brca
from fedkg.data.sets.table_data_set import table_set
from fedkg.data.sets.testbeds import (
    generate_hai,
    generate_skab,
    generate_swat,
    load_hai,
    load_skab,
    load_swat,
)
from fedkg.data.sets.traffic import generate_fhwa, generate_norway, load_fhwa, load_norway
from fedkg.errors import JobError


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The loader and the generator of a data set.

    Attributes:
        load: reads it: path, seed of a random choice of samples, number of samples (None: all).
        generate: makes data of its form: seed, size (None: the generator's default).
        size: the unit of `size`.
    """

    load: Callable[[str | Path, int, int | None], DataSet]
    generate: Callable[[int, int | None], DataSet]
    size: str


DATA_SETS: Mapping[str, Source] = {
    "ai4i": Source(load=load_ai4i, generate=generate_ai4i, size="rows"),
    "secom": Source(load=load_secom, generate=generate_secom, size="rows"),
    "covtype": Source(load=load_covtype, generate=generate_covtype, size="rows"),
    "mnist": Source(
        load=load_mnist,
        generate=partial(generate_images, "mnist", (1, 28, 28), DIGITS),
        size="images",
    ),
    "fashion-mnist": Source(
        load=load_fashion,
        generate=partial(generate_images, "fashion-mnist", (1, 28, 28), CLOTHES),
        size="images",
    ),
    "cifar-10": Source(
        load=load_cifar10,
        generate=partial(generate_images, "cifar-10", (3, 32, 32), THINGS),
        size="images",
    ),
    "cmapss": Source(load=load_cmapss, generate=generate_cmapss, size="engines"),
    "traffic": Source(load=load_norway, generate=generate_norway, size="hours of each station"),
    "fhwa": Source(load=load_fhwa, generate=generate_fhwa, size="hours of each station"),
    "sumo": Source(load=load_sumo, generate=generate_sumo, size="intervals of each segment"),
    "skab": Source(load=load_skab, generate=generate_skab, size="runs"),
    "hai": Source(
        load=load_hai, generate=generate_hai, size="rows of each file, runs of the generator"
    ),
    "swat": Source(
        load=load_swat, generate=generate_swat, size="rows of each file, runs of the generator"
    ),
    "bosch": Source(load=load_bosch, generate=generate_bosch, size="rows"),
    "tcga-brca": Source(load=load_tcga_brca, generate=generate_tcga_brca, size="patients"),
}
"""Data sets by the names that `data_set` and the `data.set` of a job accept."""


def data_set(
    name: str, path: str | Path | None = None, *, seed: int = 0, size: int | None = None
) -> DataSet:
    """Load a data set by name from `path`, or generate data of its form.

    Args:
        name: of a data set, such as ``"cmapss"``; the reference of models and data sets lists
            them.
        path: file or folder, as the loader of the data set expects; None: generate.
        seed: of the generator, or of the choice of samples from a file.
        size: amount of data, in the unit of the data set: rows, images, hours, engines.

    Raises:
        JobError: an unknown name, or a size below 1.
        TableError: the files at `path` are missing or have another layout.

    Examples:
        >>> data_set("cmapss", size=2).client_names
        ('train 1', 'test 1')
    """
    if name not in DATA_SETS:
        near = nearest_name(name, DATA_SETS)
        raise JobError(
            f"unknown data set {name}",
            expected=", ".join(DATA_SETS),
            help=f"did you mean `{near}`?" if near else "",
        )
    if size is not None and size < 1:
        raise JobError(
            "the size of a data set must be at least 1",
            received=str(size),
            help="set data.size to 1 or more",
        )
    source = DATA_SETS[name]
    return source.generate(seed, size) if path is None else source.load(path, seed, size)


__all__ = [
    "DATA_SETS",
    "DataSet",
    "Source",
    "StandardisedDataSet",
    "Task",
    "data_set",
    "forecast_windows",
    "labelled_windows",
    "series",
    "standardise",
    "table_set",
]
