"""A handmade pack and a small job, so that job tests do not need the rule compiler."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkg.pack import (
    Bank,
    Column,
    Compare,
    DataContract,
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

MACHINES = ("M1", "M2", "M3", "M4")


def milling_pack() -> Pack:
    """Strain and wear rules on four machines, and one rule about the data."""
    contract = DataContract(
        columns=(
            Column(name="torque", source="Torque [Nm]", unit="N.m", span=(0.0, 80.0)),
            Column(name="wear", source="Tool wear [min]", unit="min", span=(0.0, 260.0)),
            Column(
                name="failure",
                source="Machine failure",
                role="output",
                unit="probability",
                span=(0.0, 1.0),
            ),
            Column(name="machine", source="machine", type="category", vocabulary=MACHINES),
        ),
        views=(View(), View(kind="raised", column=1, delta=13.0)),
    )
    failure = Slot(index=2, role="output")
    strain = Implies(
        antecedent=Compare(
            op="lt",
            left=Param(index=0),
            right=Product(args=(Slot(index=0), Slot(index=1))),
            scale=2,
        ),
        consequent=Compare(op="le", left=Param(index=1), right=failure, scale=3),
    )
    monotone = Compare(
        op="le", left=Slot(index=0, role="output"), right=Slot(index=1, role="output"), scale=0
    )
    positive = Compare(op="le", left=Param(index=0), right=Slot(index=0), scale=1)
    rules = (
        RuleRecord(
            name="overstrain",
            title="Strain above the limit predicts a failure.",
            kind="capacity",
            output=True,
            text="rule overstrain",
        ),
        RuleRecord(
            name="risk_follows_wear",
            title="A worn tool is no safer.",
            kind="temporal",
            output=True,
            text="rule risk_follows_wear",
        ),
        RuleRecord(
            name="torque_positive",
            title="Torque is positive.",
            kind="physical",
            text="rule torque_positive",
        ),
    )
    count = len(MACHINES)
    codes = np.arange(count, dtype=np.int32)[:, None]

    def bank(
        rule: int, skeleton: Any, slots: list[int], views: list[int], params: list[float]
    ) -> Bank:
        return Bank(
            skeleton=skeleton,
            slots=np.tile(np.array(slots, dtype=np.int32), (count, 1)),
            views=np.tile(np.array(views, dtype=np.int32), (count, 1)),
            params=np.tile(np.array(params), (count, 1)),
            keys=np.full((count, 1), 3, dtype=np.int32),
            codes=codes,
            weight=np.full(count, 1.0 / count),
            rule=np.full(count, rule, dtype=np.int32),
            entity=np.arange(1, count + 1, dtype=np.int32),
            unit=np.zeros(count, dtype=np.int32),
        )

    banks = (
        bank(0, strain, [0, 1, 2], [0, 0, 0], [11000.0, 0.5, 1000.0, 1.0]),
        bank(1, monotone, [2, 2], [0, 1], [1.0]),
        bank(2, positive, [0], [0], [0.0, 80.0]),
    )
    return Pack(
        manifest=Manifest(
            sections={"constraints": Section(version=1)},
            contract=contract,
            rules=rules,
            skeletons=tuple(b.skeleton for b in banks),
            entities=("", *MACHINES),
            provenance=Provenance(compiler="by hand"),
        ),
        banks=banks,
    )


@pytest.fixture(scope="session")
def pack() -> Pack:
    return milling_pack()


@pytest.fixture
def pack_file(pack: Pack, tmp_path: Path) -> Path:
    return pack.save(tmp_path / "rules.fkgpack")


@pytest.fixture
def job_fields(pack_file: Path) -> dict[str, Any]:
    """A job that trains in about a second."""
    return {
        "name": "small",
        "pack": str(pack_file),
        "sites": {
            "graz": {"machines": ["M1", "M2"]},
            "linz": {"machines": ["M3"]},
            "wien": {"machines": ["M4"]},
        },
        "data": {"rows": 1500, "seed": 6, "categories": ["Type"], "min_samples": 20},
        "model": {"hidden": [8]},
        "training": {
            "rounds": 3,
            "participation": 1.0,
            "batch": 64,
            "learning_rate": 0.1,
            "executor": "sequential",
            "positive_weight": 5,
        },
        "scoring": {"probe_rows": 50, "rows_per_rule": 2},
        "evaluation": {"local_baseline": False},
        "compare": {"algorithm": ["fedavg", "scfa"]},
        "corrupt": {"site": "linz"},
    }


@pytest.fixture
def no_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """The report has its own tests; drawing it here would take most of the time."""
    import fedkg.report

    monkeypatch.setattr(
        fedkg.report, "write_report", lambda folder: Path(folder) / "report.html", raising=False
    )
