"""Survival of patients: TCGA-BRCA as FLamby prepares it.

Letters: N patients.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkg.data.sets.dataset import (
    DataSet,
    draw_samples,
    generator_source,
    repeat_names,
    seeded_generator,
)
from fedkg.data.sets.numeric_table_reader import find_files, read_text
from fedkg.errors import TableError

F64 = NDArray[np.float64]

REGIONS = ("Northeast", "South", "West", "Midwest", "Europe", "Canada")
"""The centres in the order of their numbers in the published split."""

REGION_SIZES = (311, 196, 206, 162, 162, 51)

EVENT, TIME = "E", "T"

CATEGORY_SHARES = {
    "ethnicity_not hispanic or latino": 0.81,
    "ethnicity_not reported": 0.16,
    "race_asian": 0.06,
    "race_black or african american": 0.17,
    "race_not reported": 0.09,
    "race_white": 0.69,
    "ajcc_pathologic_m_MX": 0.15,
    "ajcc_pathologic_n_N0 (i-)": 0.14,
    "ajcc_pathologic_n_N1": 0.12,
    "ajcc_pathologic_n_N1a": 0.15,
    "ajcc_pathologic_n_N2": 0.05,
    "ajcc_pathologic_n_N2a": 0.06,
    "ajcc_pathologic_stage_Stage IA": 0.08,
    "ajcc_pathologic_stage_Stage IIA": 0.33,
    "ajcc_pathologic_stage_Stage IIB": 0.23,
    "ajcc_pathologic_stage_Stage IIIA": 0.14,
    "ajcc_pathologic_stage_Stage IIIC": 0.06,
    "ajcc_pathologic_t_T1c": 0.20,
    "ajcc_pathologic_t_T2": 0.58,
    "ajcc_pathologic_t_T3": 0.13,
    "ajcc_staging_system_edition_5th": 0.05,
    "ajcc_staging_system_edition_6th": 0.41,
    "ajcc_staging_system_edition_7th": 0.38,
    "icd_10_code_C50.9": 0.99,
    "morphology_8500/3": 0.71,
    "morphology_8520/3": 0.18,
    "primary_diagnosis_Infiltrating duct carcinoma, NOS": 0.71,
    "primary_diagnosis_Lobular carcinoma, NOS": 0.18,
    "prior_malignancy_yes": 0.06,
    "synchronous_malignancy_Not Reported": 0.06,
    "treatment_or_therapy_not reported": 0.09,
    "treatment_or_therapy_yes": 0.77,
    "tumor_stage_stage i": 0.08,
    "tumor_stage_stage ia": 0.08,
    "tumor_stage_stage iia": 0.33,
    "tumor_stage_stage iib": 0.23,
    "tumor_stage_stage iiia": 0.14,
    "tumor_stage_stage iiic": 0.06,
}
"""One-hot columns after the age, with the share of patients of each in the public table."""

FEATURES = ("age_at_index", *CATEGORY_SHARES)

LOG_HAZARDS = {
    "ajcc_pathologic_stage_Stage IIIA": 1.0,
    "ajcc_pathologic_stage_Stage IIIC": 1.6,
    "tumor_stage_stage iiia": 0.2,
    "tumor_stage_stage iiic": 0.4,
    "treatment_or_therapy_yes": -0.5,
}
"""Logarithms of the hazard ratios of the generator; 0.03 for each year of age."""


def load_tcga_brca(path: str | Path, seed: int, size: int | None) -> DataSet:
    """Load TCGA-BRCA as FLamby publishes it (Ogier du Terrail et al. 2022): clinical data of 1,088
    patients with breast cancer in six regions, with days until death or the end of observation.

    Reads a folder with ``brca.csv`` and ``train_test_split.csv``. Patients that the split does not
    name are left out.

    Raises:
        TableError: a file is missing, or has other columns, centres or numbers.
    """
    root = Path(path)
    table, split = (_read_csv(root, name) for name in ("brca.csv", "train_test_split.csv"))
    header = table[0] if table else []
    if (*header,) != ("pid", *FEATURES, EVENT, TIME):
        wrong = [name for name in ("pid", *FEATURES, EVENT, TIME) if name not in header]
        raise TableError(
            f"{root}: brca.csv does not have the columns of FLamby's TCGA-BRCA",
            expected=f"pid, {FEATURES[0]}, ..., {FEATURES[-1]}, {EVENT}, {TIME}",
            received=f"without {', '.join(wrong[:3])}" if wrong else "another order",
            help="use brca.csv as FLamby publishes it",
        )
    place = {row[0]: number for number, row in enumerate(table[1:], start=1) if row}
    rows, regions, test = [], [], []
    for number, line in enumerate(split[1:], start=2):
        fold, _, centre = line[-1].partition("_") if len(line) == 3 else ("", "", "")
        if fold not in ("train", "test") or centre not in map(str, range(6)):
            raise TableError(
                f"{root}: line {number} of train_test_split.csv is wrong",
                expected="a patient, a fold, and train_0 .. train_5 or test_0 .. test_5",
                received=",".join(line)[:60],
                help="use train_test_split.csv as FLamby publishes it",
            )
        if line[0] not in place:
            raise TableError(
                f"{root}: brca.csv lacks patient {line[0]} of train_test_split.csv",
                help="use both files of the same release of FLamby",
            )
        rows.append(place[line[0]])
        regions.append(REGIONS[int(centre)])
        test.append(fold == "test")
    values = _numbers(root, table, rows)
    clients = np.array(regions, dtype=object)
    idle = len(place) - len(rows)
    data = _patients(values[:, :-2], values[:, [-1, -2]], clients, np.array(test), str(path), idle)
    return draw_samples(data, size, seed)


def _read_csv(root: Path, name: str) -> list[list[str]]:
    [path, *_] = find_files(root, [name], "TCGA-BRCA")
    try:
        return list(csv.reader(read_text(path).splitlines()))
    except csv.Error as error:
        raise TableError(
            f"{path} is not a CSV file",
            received=str(error),
            help=f"use {name} as FLamby publishes it",
        ) from error


def _numbers(root: Path, table: list[list[str]], rows: list[int]) -> F64:
    """The cells of some rows after the identifier."""
    values = np.empty((len(rows), len(table[0]) - 1))
    for at, row in enumerate(rows):
        try:
            values[at] = [float(cell) for cell in table[row][1:]]
        except ValueError as error:
            raise TableError(
                f"{root}: row {row} of brca.csv does not have {values.shape[1]} numbers after the "
                "patient",
                received=f"{len(table[row]) - 1} cells"
                if len(table[row]) - 1 != values.shape[1]
                else str(error),
                help="use brca.csv as FLamby publishes it",
            ) from error
    return values


def generate_tcga_brca(seed: int, size: int | None) -> DataSet:
    """Generate patients of TCGA-BRCA's form: the risk grows with age and stage, and falls with
    treatment; about one patient in seven has an event.

    Columns of the same quantity (stage, race) are drawn independently. Each region tests one in
    five.
    """
    draw, count = seeded_generator(seed), size or sum(REGION_SIZES)
    age = np.clip(np.round(draw.normal(58.4, 13.2, count)), 26, 90)
    categories = draw.random((count, len(CATEGORY_SHARES))) < list(CATEGORY_SHARES.values())
    x = np.concatenate([age[:, None], categories], axis=1)
    risk = 0.03 * (age - 58.4) + sum(
        ratio * x[:, FEATURES.index(name)] for name, ratio in LOG_HAZARDS.items()
    )
    death = draw.exponential(9_000.0 * np.exp(-risk))
    end = draw.exponential(1_250.0, count)
    time = np.ceil(np.minimum(death, end))
    region = np.searchsorted(np.cumsum(REGION_SIZES) / sum(REGION_SIZES), draw.random(count))
    test = np.zeros(count, dtype=bool)
    for number in range(len(REGIONS)):
        test[np.flatnonzero(region == number)[::5]] = True
    return _patients(
        x,
        np.stack([time, death <= end], axis=1),
        repeat_names(list(REGIONS), [1] * len(REGIONS))[np.minimum(region, len(REGIONS) - 1)],
        test,
        generator_source("TCGA-BRCA", seed),
    )


def _patients(
    x: F64, y: F64, regions: NDArray[Any], test: NDArray[np.bool_], source: str, idle: int = 0
) -> DataSet:
    order = np.argsort([REGIONS.index(name) for name in regions], kind="stable")
    return DataSet(
        name="tcga-brca",
        source=source,
        x=x[order],
        y=y[order],
        features=FEATURES,
        units=("",) * len(FEATURES),
        task="survival",
        label="death",
        clients=regions[order],
        test=test[order],
        notes=(f"the published split leaves out {idle} patients",) * bool(idle),
    )
