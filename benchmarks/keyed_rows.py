"""Constraints that each apply to one of 60 machines, over a batch of 1,024.

    python benchmarks/keyed_rows.py [--rows 420 3000] [--machines 60] [--batch 1024]
        [--repeats 15]

They are evaluated only on the samples of their machine. The formulas are those of
`constraint_module.py`. The peer is the same module with its rows evaluated on the whole batch and
masked. Before the benchmark measures time, it compares verdicts to the bit, and penalties and
gradients up to rounding. The floor reads the numbers of the applicable (row, sample) pairs once.
Times are processor times. Banks with few pairs in all are evaluated on the whole batch both times.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np
import torch
from constraint_module import OUTPUTS, SIGNALS, make_pack

from fedkg.constraints import ConstraintModule, batch_evaluation, columns, selection
from fedkg.constraints.report import ConstraintReport
from fedkg.pack import Column, Pack

TARGET = 2.0


def make_keyed(rows: int, machines: int, dice: np.random.Generator) -> Pack:
    """The constraints of `constraint_module`, each of them for one machine."""
    pack = make_pack(rows, dice)
    key = len(pack.manifest.contract.columns)
    vocabulary = tuple(f"M{i}" for i in range(machines))
    machine = Column(name="machine", source="machine", type="category", vocabulary=vocabulary)
    contract = pack.manifest.contract.model_copy(
        update={"columns": (*pack.manifest.contract.columns, machine)}
    )
    banks = [
        replace(
            bank,
            keys=np.full((bank.rows, 1), key, dtype=np.int32),
            codes=(np.arange(bank.rows, dtype=np.int32) % machines)[:, None],
        )
        for bank in pack.banks
    ]
    return Pack(
        manifest=pack.manifest.model_copy(update={"contract": contract}), banks=tuple(banks)
    )


def timed(work: Callable[[], object]) -> float:
    """CPU milliseconds of one call."""
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


def measure(rows: int, machines: int, batch: int, repeats: int) -> list[dict[str, object]]:
    """Compare and time both ways for a number of constraints."""
    rules = ConstraintModule(
        make_keyed(rows, machines, np.random.default_rng(0)),
        x=columns([f"c{i}" for i in range(SIGNALS)]),
        y=columns([f"c{i}" for i in range(SIGNALS, SIGNALS + OUTPUTS)]),
    )
    generator = torch.Generator().manual_seed(0)
    x, y = (
        torch.randn(batch, SIGNALS, generator=generator),
        torch.randn(batch, OUTPUTS, generator=generator).requires_grad_(),
    )
    keys = {"machine": torch.randint(0, machines, (batch,), generator=generator)}

    def robustness() -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = rules(x, y, keys=keys).robustness
            return found

    def gradient() -> torch.Tensor:
        return torch.autograd.grad(rules(x, y, keys=keys).penalty, y)[0]

    def densely(work: Callable[[], torch.Tensor]) -> torch.Tensor:
        with (
            patch.object(selection, "WORTH", 0.0),
            patch.object(batch_evaluation, "SMALL", 1 << 62),
        ):
            return work()

    report: ConstraintReport = rules(x, y, keys=keys)
    pairs = int(report.applicable.sum())
    slots = sum(len(bank.inputs) + len(bank.outputs) for bank in rules.banks) / len(rules.banks)
    gathered = torch.randn(int(slots * pairs), generator=generator)
    assert torch.equal(robustness().nan_to_num(1e9), densely(robustness).nan_to_num(1e9))
    assert torch.allclose(
        report.penalty, densely(lambda: rules(x, y, keys=keys).penalty), rtol=1e-4
    )
    assert torch.allclose(gradient(), densely(gradient), rtol=1e-3, atol=1e-6)
    results: list[dict[str, object]] = []
    print(
        f"{rows} constraints for {machines} machines x batch {batch}: {pairs} of {rows * batch} pairs apply"
    )
    for claim, work in (("robustness", robustness), ("penalty, forward and backward", gradient)):
        for _ in range(2):
            work(), densely(work)
        taken = [
            (timed(work), timed(partial(densely, work)), timed(gathered.sum))
            for _ in range(repeats)
        ]
        ours, peer, floor = (statistics.median(column) for column in zip(*taken, strict=True))
        ratio = statistics.median(dense / sparse for sparse, dense, _ in taken)
        print(
            f"  {claim:30s} its samples {ours:8.2f} ms, whole batch {peer:8.2f} ms, floor {floor:6.3f} ms: {ratio:.1f} times faster"
        )
        results.append(
            {
                "claim": f"{claim}: {rows} constraints for {machines} machines x batch {batch}",
                "ours": round(ours, 3),
                "peer": round(peer, 3),
                "peer_name": "tensor operations on the whole batch, masked",
                "ratio": round(ratio, 1),
                "target": TARGET,
                "holds": ratio >= TARGET,
                "floor": round(floor, 3),
            }
        )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, nargs="+", default=[420, 3000])
    parser.add_argument("--machines", type=int, default=60)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"torch {torch.__version__}, 1 thread on {os.cpu_count()} cores, {platform.machine()}, float32, {options.repeats} repeats"
    )
    results = [
        result
        for rows in options.rows
        for result in measure(rows, options.machines, options.batch, options.repeats)
    ]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
