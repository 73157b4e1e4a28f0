"""Linear rules over 50 outputs as a layer behind a model, against PiShield.

    python benchmarks/linear_rule_projection.py [--batch 1024] [--repeats 5] [--patience 40]
        [--sizes 20 30 ...]

Compares the time, and how many answers violate a rule afterwards. A family is a random set of rules
over three outputs each, with coefficients of both signs, that at least one point satisfies; answers
are random. Ours is `rules.project` of a pack with these rules. PiShield builds and runs in a
separate process, which is stopped after `--patience` seconds. If it fails or does not finish, the
reason is printed and it is not tried on larger families. Before the benchmark measures time, it
checks the answers of both against the rules in float64, and ours also against the exact nearest
answers. All run on one thread. The floor is one read and one write of the answers.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib.util
import io
import json
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from peers.peer_process import Peer, PeerError, peer_process
from reporting.rows import Row, compare, missing, without_peer
from torch import Tensor

import fedkg
from fedkg.constraints import ConstraintModule
from fedkg.pack import (
    SECTIONS,
    Bank,
    Column,
    Compare,
    DataContract,
    Manifest,
    Pack,
    Param,
    Product,
    Provenance,
    RuleRecord,
    Section,
    Slot,
    Sum,
)
from fedkg.projection import project_polytope

Array = NDArray[np.float64]
OUTPUTS, SIZES, TOLERANCE = 50, (20, 30, 40, 60, 100, 300, 1000), 1e-5
MEMORY = 6 << 30
"""Memory limit of PiShield in bytes; it derives new rules from every pair."""


def family(count: int) -> tuple[Array, Array]:
    """Rows [m, n] and bounds [m] of ``rows @ y >= ends``."""
    dice = np.random.default_rng(count)
    inside, rows = dice.normal(size=OUTPUTS) * 0.5, np.zeros((count, OUTPUTS))
    for row in rows:
        row[dice.choice(OUTPUTS, 3, replace=False)] = np.round(
            dice.uniform(0.5, 2, 3), 2
        ) * dice.choice([-1, 1], 3)
    return rows, np.round(rows @ inside - dice.uniform(0.2, 1.0, count), 3)


def module(rows: Array, ends: Array) -> ConstraintModule:
    """A pack of the rules: one bank."""
    count = len(rows)
    slots = np.stack([row.nonzero()[0] for row in rows])
    factors = np.take_along_axis(rows, slots, 1)
    terms = tuple(Product(args=(Param(index=i), Slot(index=i, role="output"))) for i in range(3))
    skeleton = Compare(op="le", left=Param(index=3), right=Sum(args=terms), scale=4)
    nothing = np.zeros(count, dtype=np.int32)
    bank = Bank(
        skeleton=skeleton,
        slots=slots.astype(np.int32),
        views=np.zeros((count, 3), dtype=np.int32),
        params=np.concatenate([factors, ends[:, None], np.ones((count, 1))], 1),
        keys=np.zeros((count, 0), dtype=np.int32),
        codes=np.zeros((count, 0), dtype=np.int32),
        weight=np.ones(count),
        rule=nothing,
        entity=nothing,
        unit=nothing,
    )
    manifest = Manifest(
        sections={name: Section(version=version) for name, version in SECTIONS.items()},
        contract=DataContract(
            columns=tuple(
                Column(name=f"y_{i}", source=f"y_{i}", role="output") for i in range(OUTPUTS)
            )
        ),
        rules=(RuleRecord(name="rules", title="Rules.", output=True, hard=True),),
        skeletons=(skeleton,),
        entities=("",),
        units=("",),
        provenance=Provenance(compiler="benchmark"),
    )
    read = sorted(set(slots.ravel().tolist()))
    return ConstraintModule(
        Pack(manifest=manifest, banks=(bank,)),
        x=fedkg.columns([]),
        y=fedkg.columns([f"y_{i}" for i in read]),
    )


def pishield(
    rows: Array,
    ends: Array,
    answers: Tensor,
    send: Callable[[object], None],
    receive: Callable[[], bool],
) -> None:
    """Send the layer's answers, then the milliseconds of one pass for each message received.

    A message says whether the pass includes the backward pass.
    """
    from pishield.shield_layer import build_shield_layer

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    torch.set_num_threads(1)
    lines = ["ordering " + " ".join(f"y_{i}" for i in range(OUTPUTS))]
    for row, end in zip(rows, ends, strict=True):
        terms = "".join(
            f"{' - ' if row[i] < 0 else ' + '}{abs(row[i])}y_{i}" for i in row.nonzero()[0]
        )
        lines.append(f"{terms.removeprefix(' + ').strip()} >= {end}")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        path = Path(folder) / "rules.txt"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        layer = build_shield_layer(OUTPUTS, str(path), requirements_type="linear")
        send(layer(answers).numpy())
        while True:
            send(timed(passing(layer, answers, backward=receive())))


def passing(
    layer: Callable[[Tensor], Tensor], answers: Tensor, *, backward: bool
) -> Callable[[], object]:
    """One pass through a layer; the backward pass uses a gradient of ones."""
    if not backward:
        return lambda: layer(answers)
    given = answers.clone().requires_grad_()

    def both() -> None:
        layer(given).sum().backward()  # type: ignore[no-untyped-call]  # torch gives it no types

    return both


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    work()
    return (time.perf_counter() - start) * 1e3


def measure_violations(rows: Array, ends: Array, answers: Tensor) -> tuple[float, float]:
    """The share of answers that violate a rule beyond the tolerance, and the largest violation."""
    missed = ends - answers.double().numpy() @ rows.T
    return float((missed > TOLERANCE).any(1).mean()), float(missed.max())


def compared(
    count: int,
    batch: int,
    backward: bool,
    times: list[float],
    others: list[float],
    own: float,
    floor: float,
    failure: str,
) -> Row:
    """A line of results: the medians, and the median ratio of consecutive passes.

    If PiShield has no result, the line gives the reason.
    """
    ours, what = statistics.median(times), "forward and backward" if backward else "forward"
    spread = f"{min(times):.1f} .. {max(times):.1f}"
    claim = f"{count} linear rules x batch {batch}, {what}, ms"
    if failure:
        print(f"               {what}: {ours:.2f} ms ({spread}); PiShield {failure}")
        return without_peer(claim, failure, "PiShield", ours=times, floor=floor)
    row = compare(claim, times, others, "PiShield", target=1.0, floor=floor)
    print(
        f"               {what}: {ours:.2f} ms ({spread}), PiShield {row['peer']} ms "
        f"({min(others):.1f} .. {max(others):.1f}): {row['ratio']} times"
    )
    return {**row, "holds": bool(row["holds"]) and own == 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--patience", type=float, default=40.0)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options = parser.parse_args()
    torch.set_num_threads(1)
    print(
        f"{OUTPUTS} outputs, batch {options.batch}, {options.repeats} repeats, one thread; torch"
        f" {torch.__version__}, {platform.machine()}"
    )
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    results: list[Row] = []
    installed = importlib.util.find_spec("pishield") is not None
    failure, kept = "" if installed else missing("pishield"), True
    for count in options.sizes:
        rows, ends = family(count)
        rules = module(rows, ends)
        answers = (
            torch.randn(options.batch, OUTPUTS, generator=torch.Generator().manual_seed(count)) * 2
        )
        read = sorted(set(rows.nonzero()[1].tolist()))
        x, y = torch.zeros(options.batch, 0), answers[:, read]
        moved = answers.clone()
        moved[:, read] = rules.project(x, y)
        exact = project_polytope(answers.double(), torch.from_numpy(-rows), torch.from_numpy(-ends))
        assert float(exact.residual.max()) < 1e-9
        assert float((exact.point - moved).abs().max()) < 1e-4
        own, worst = measure_violations(rows, ends, moved)
        floor = min(timed(functools.partial(torch.add, answers, 1)) for _ in range(20))
        layer = functools.partial(rules.project, x)
        print(f"  {count:5d} rules  fedkg    {own:7.2%} violated, by {worst:8.1e} at most")
        with contextlib.ExitStack() as stack:
            theirs: Peer | None = None
            if failure:
                if installed:
                    failure = f"{failure.partition(', so')[0]}, so {count} are not tried"
            else:
                theirs = stack.enter_context(peer_process(pishield, rows, ends, answers))
                try:
                    found = torch.from_numpy(theirs.receive(options.patience))
                    share, far = measure_violations(rows, ends, found)
                    print(f"               PiShield {share:7.2%} violated, by {far:8.1e} at most")
                except PeerError as error:
                    failure = f"{error} with {count} rules"
            for backward in (False, True):
                times, others = [], []
                passing(layer, y, backward=backward)()  # loops are compiled once per machine
                for _ in range(options.repeats):
                    times.append(timed(passing(layer, y, backward=backward)))
                    if theirs is not None and not failure:
                        try:
                            others.append(theirs.ask(backward))
                        except PeerError as error:
                            failure = f"{error} with {count} rules"
                results.append(
                    compared(count, options.batch, backward, times, others, own, floor, failure)
                )
        kept &= own == 0
    sizes = f"{options.sizes[0]} to {options.sizes[-1]} rules"
    text = (
        f"no rule violated by more than {TOLERANCE:g} in any of {len(options.sizes)} feasible sets"
        f" of {sizes}"
    )
    results.append(
        {
            "claim": text,
            "ratio": None,
            "reason": "the share of violations is printed for each",
            "target": 0,
            "holds": kept,
        }
    )
    print(json.dumps(results))


if __name__ == "__main__":
    main()
