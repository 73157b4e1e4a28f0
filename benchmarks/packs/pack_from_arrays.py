"""Packs with generated rows, for benchmarks.

They have columns ``c0``, ``c1``, ..., inputs first, and a bank for each shape.

Letters: R rows of a bank, s slots, p parameters.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkg.constraints import ConstraintModule, columns
from fedkg.pack import (
    SECTIONS,
    Bank,
    Column,
    DataContract,
    Formula,
    Manifest,
    Pack,
    Provenance,
    RuleRecord,
    Section,
)

Part = tuple[Formula, NDArray[np.int64], NDArray[np.float64]]
"""A shape, and for each of its rows the columns it reads [R, s] and its numbers [R, p]."""


def drawn_pack(
    parts: Iterable[Part],
    inputs: int,
    outputs: int,
    *,
    shared: bool = False,
    end: Literal["strict", "clip"] = "strict",
) -> Pack:
    """A rule for each part. `shared`: the rows of a part share a weight of 1."""
    banks = tuple(_bank(number, *part, shared=shared) for number, part in enumerate(parts))
    names = [f"c{place}" for place in range(inputs + outputs)]
    columns_of = tuple(
        Column(name=name, source=name, role="input" if place < inputs else "output")
        for place, name in enumerate(names)
    )
    manifest = Manifest(
        sections={name: Section(version=version) for name, version in SECTIONS.items()},
        contract=DataContract(columns=columns_of, end=end),
        rules=tuple(RuleRecord(name=f"rule_{number}", output=True) for number in range(len(banks))),
        skeletons=tuple(bank.skeleton for bank in banks),
        provenance=Provenance(compiler="benchmark"),
    )
    return Pack(manifest=manifest, banks=banks)


def module_of(pack: Pack) -> ConstraintModule:
    """The rules over the pack's columns: inputs as features, the others as answers."""
    by_role = {
        role: [column.name for column in pack.manifest.contract.columns if column.role == role]
        for role in ("input", "output")
    }
    return ConstraintModule(pack, x=columns(by_role["input"]), y=columns(by_role["output"]))


def _bank(
    number: int,
    skeleton: Formula,
    slots: NDArray[np.int64],
    params: NDArray[np.float64],
    *,
    shared: bool,
) -> Bank:
    rows, places = slots.shape
    nothing, none = np.zeros(rows, dtype=np.int32), np.zeros((rows, 0), dtype=np.int32)
    return Bank(
        skeleton=skeleton,
        slots=slots.astype(np.int32),
        views=np.zeros((rows, places), dtype=np.int32),
        params=params.astype(np.float64),
        keys=none,
        codes=none,
        weight=np.full(rows, 1.0 / rows if shared else 1.0),
        rule=np.full(rows, number, dtype=np.int32),
        entity=nothing,
        unit=nothing,
    )
