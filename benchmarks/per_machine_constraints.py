"""Constraints that each apply to one of 60 machines, over a batch of 1,024.

    python benchmarks/per_machine_constraints.py [--rows 420 3000] [--machines 60] [--batch 1024]
        [--repeats 15]

fedkg evaluates them only on the samples of their machine. The formulas are those of
`constraint_module.py`. The peer is what a user writes without keys: a `ConstraintModule` with the
same rules for all machines on the whole batch, and a mask on its report. Before the benchmark
measures time, it compares verdicts to the bit, and penalties and gradients up to rounding. The
floor reads the numbers of the applicable (row, sample) pairs once. Times are processor times.
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

import numpy as np
import torch
from constraint_module import OUTPUTS, SIGNALS, make_pack
from reporting.rows import Row, compare

from fedkg.constraints import ConstraintModule, ConstraintReport, columns
from fedkg.pack import Column, Pack, used_slots

TARGET = 2.0


def make_keyed(rows: int, machines: int, dice: np.random.Generator) -> Pack:
    """The constraints of `constraint_module`, each for one machine."""
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


def measure(rows: int, machines: int, batch: int, repeats: int) -> list[Row]:
    """Compare and time both ways for a number of constraints."""
    rules, everywhere = (
        ConstraintModule(
            pack,
            x=columns([f"c{i}" for i in range(SIGNALS)]),
            y=columns([f"c{i}" for i in range(SIGNALS, SIGNALS + OUTPUTS)]),
        )
        for pack in (
            make_keyed(rows, machines, np.random.default_rng(0)),
            make_pack(rows, np.random.default_rng(0)),
        )
    )
    codes = torch.from_numpy(np.concatenate([bank.codes[:, 0] for bank in rules.pack.banks]))
    shapes = len(rules.pack.banks)
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

    def masked() -> tuple[ConstraintReport, torch.Tensor]:
        """The rules without keys on the whole batch, and the pairs that apply [B, R]."""
        return everywhere(x, y), keys["machine"][:, None] == codes

    def masked_robustness() -> torch.Tensor:
        with torch.no_grad():
            found, applies = masked()
            return torch.where(applies, found.robustness, torch.nan)

    def masked_penalty() -> torch.Tensor:
        found, applies = masked()
        sums = torch.zeros(2, shapes).index_add(
            1, found.rule_index, torch.stack([(found.penalties * applies).sum(0), applies.sum(0)])
        )
        return (sums[0] / sums[1].clamp(min=1)).sum()  # the weight of every rule is 1

    def masked_gradient() -> torch.Tensor:
        return torch.autograd.grad(masked_penalty(), y)[0]

    report: ConstraintReport = rules(x, y, keys=keys)
    pairs = int(report.applicable.sum())
    slots = sum(len(used_slots(bank.skeleton)) for bank in rules.pack.banks) / shapes
    gathered = torch.randn(int(slots * pairs), generator=generator)
    assert torch.equal(robustness().nan_to_num(1e9), masked_robustness().nan_to_num(1e9))
    assert torch.allclose(report.penalty, masked_penalty(), rtol=1e-4)
    assert torch.allclose(gradient(), masked_gradient(), rtol=1e-3, atol=1e-6)
    results: list[Row] = []
    print(
        f"{rows} constraints for {machines} machines x batch {batch}: {pairs} of {rows * batch}"
        " pairs apply"
    )
    for claim, work, peer_work in (
        ("robustness", robustness, masked_robustness),
        ("penalty, forward and backward", gradient, masked_gradient),
    ):
        for _ in range(2):
            work(), peer_work()
        taken = [(timed(work), timed(peer_work), timed(gathered.sum)) for _ in range(repeats)]
        own_times, peer_times, floors = ([turn[i] for turn in taken] for i in range(3))
        ours, peer, floor = (statistics.median(each) for each in (own_times, peer_times, floors))
        ratio = statistics.median(dense / sparse for sparse, dense, _ in taken)
        print(
            f"  {claim:30s} its samples {ours:8.2f} ms, whole batch {peer:8.2f} ms, floor"
            f" {floor:6.3f} ms: {ratio:.1f} times faster"
        )
        results.append(
            compare(
                f"{claim}: {rows} constraints for {machines} machines x batch {batch}, CPU ms",
                own_times,
                peer_times,
                "a ConstraintModule without keys on the whole batch, masked",
                target=TARGET,
                floor=floor,
            )
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
        f"torch {torch.__version__}, 1 thread on {os.cpu_count()} cores, {platform.machine()},"
        f" float32, {options.repeats} repeats"
    )
    results = [
        result
        for rows in options.rows
        for result in measure(rows, options.machines, options.batch, options.repeats)
    ]
    print(json.dumps(results))


if __name__ == "__main__":
    main()
