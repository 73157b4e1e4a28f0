"""Small packs built by hand for the tests of evaluation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedkg.pack import (
    Bank,
    Column,
    Compare,
    DataContract,
    Formula,
    Implies,
    Manifest,
    Pack,
    Param,
    Product,
    Provenance,
    RuleRecord,
    Section,
    Slot,
    View,
)

COLUMNS = (
    Column(name="torque", source="Torque [Nm]", unit="N.m", span=(0, 100)),
    Column(name="wear", source="Tool wear [min]", unit="min"),
    Column(name="variant", source="Type", type="category", vocabulary=("L", "M", "H")),
    Column(name="failure", source="Machine failure", role="output", unit="probability"),
)
TORQUE, WEAR, VARIANT, FAILURE = range(4)
BELOW = Compare(op="le", left=Slot(index=0), right=Param(index=0), scale=1)
BELOW_STRICTLY = Compare(op="lt", left=Slot(index=0), right=Param(index=0), scale=1)
GROWS = Compare(op="le", left=Slot(index=0), right=Slot(index=1), scale=0)
STRAIN = Implies(
    antecedent=Compare(
        op="lt", left=Param(index=0), right=Product(args=(Slot(index=0), Slot(index=1))), scale=1
    ),
    consequent=Compare(op="le", left=Param(index=2), right=Slot(index=2, role="output"), scale=3),
)


def bank(
    skeleton: Formula,
    slots: Sequence[Sequence[int]],
    params: Sequence[Sequence[float]],
    *,
    rule: int,
    keys: Sequence[Sequence[int]] | None = None,
    codes: Sequence[Sequence[int]] | None = None,
    views: Sequence[Sequence[int]] | None = None,
    entity: Sequence[int] | None = None,
    unit: int = 0,
) -> Bank:
    """A bank of len(slots) rows of one rule."""
    rows = len(slots)
    columns = np.array(slots, dtype=np.int32)
    return Bank(
        skeleton=skeleton,
        slots=columns,
        views=np.zeros_like(columns) if views is None else np.array(views, dtype=np.int32),
        params=np.array(params, dtype=np.float64).reshape(rows, -1),
        keys=np.array(keys or [[]] * rows, dtype=np.int32).reshape(rows, -1),
        codes=np.array(codes or [[]] * rows, dtype=np.int32).reshape(rows, -1),
        weight=np.full(rows, 1 / max(rows, 1)),
        rule=np.full(rows, rule, dtype=np.int32),
        entity=np.array(entity if entity is not None else [0] * rows, dtype=np.int32),
        unit=np.full(rows, unit, dtype=np.int32),
    )


def pack(
    names: Sequence[str],
    banks: Sequence[Bank],
    *,
    columns: Sequence[Column] = COLUMNS,
    views: Sequence[View] = (View(),),
    time: str | None = None,
    trace: str | None = None,
    entities: Sequence[str] = ("",),
    units: Sequence[str] = ("",),
) -> Pack:
    """A pack of those banks, with one rule per name."""
    return Pack(
        manifest=Manifest(
            sections={"constraints": Section(version=1)},
            contract=DataContract(
                columns=tuple(columns), views=tuple(views), time=time, trace=trace
            ),
            rules=tuple(RuleRecord(name=name) for name in names),
            skeletons=tuple(one.skeleton for one in banks),
            entities=tuple(entities),
            units=tuple(units),
            provenance=Provenance(compiler="by hand"),
        ),
        banks=tuple(banks),
    )


def limits(*values: float, unit: int = 0) -> Bank:
    """Torque at most `values[i]` for the i-th entity, rule 0."""
    return bank(
        BELOW,
        [[TORQUE]] * len(values),
        [[value, 1.0] for value in values],
        rule=0,
        entity=range(1, len(values) + 1),
        unit=unit,
    )


def strain_limits() -> Bank:
    """Torque x wear above the variant's limit implies failure, rule 0, one row per variant."""
    return bank(
        STRAIN,
        [[TORQUE, WEAR, FAILURE]] * 3,
        [[limit, 1, 0.5, 1] for limit in (11_000, 12_000, 13_000)],
        rule=0,
        keys=[[VARIANT]] * 3,
        codes=[[0], [1], [2]],
        entity=[1, 2, 3],
    )
