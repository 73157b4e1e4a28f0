"""1,000 rules over 1,024 rows as one loss, against LTNtorch.

    python benchmarks/logic_tensor_networks.py [--rules 1000] [--batch 1024] [--repeats 5]

Every rule says: if one of the model's outputs lies in a range, another stays below a limit. All
fifty columns are outputs, so nothing can be computed in advance and the gradient goes through both
sides of each rule. LTNtorch gives a fuzzy truth value (sigmoid predicates, product conjunction,
Reichenbach implication, p-mean over rows and rules). fedkg gives a penalty from exact robustness,
and the smooth form by log-sum-exp. The two measure the same thing: before the benchmark measures
time, it compares the rounded fuzzy truth, with steep predicates, with the verdicts, rule by rule
and row by row.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from reporting.rows import compare
from torch import Tensor

import fedkg

COLUMNS = 50
TARGETS = {"forward": 40, "forward and backward": 60}
STEEP = 5000.0


def numbers(rules: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """For each rule the two columns it reads [rules, 2], and lower, upper and limit [rules, 3]."""
    dice = np.random.default_rng(0)
    low = dice.normal(-1, 1, rules)
    return dice.integers(COLUMNS, size=(rules, 2)), np.round(
        np.stack([low, low + 2, dice.normal(size=rules)], axis=1), 3
    )


def ours(read: np.ndarray[Any, Any], limits: np.ndarray[Any, Any]) -> fedkg.ConstraintModule:
    """The rules as a rule file, compiled."""
    lines = [f"output c{i} span -1 .. 1" for i in range(COLUMNS)]
    for i, ((a, b), (low, high, top)) in enumerate(
        zip(read.tolist(), limits.tolist(), strict=True)
    ):
        lines.append(f"rule r{i} require if {low} <= c{a} <= {high} then c{b} <= {top}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # limits are random, so some rules contradict each other
        pack = fedkg.compile(text="\n".join(lines))
    names = [f"c{i}" for i in range(COLUMNS)]
    return pack.constraints(x=fedkg.columns(["none"]), y=fedkg.columns(names))


def theirs(
    read: np.ndarray[Any, Any], limits: np.ndarray[Any, Any], steepness: float
) -> tuple[Callable[[Tensor], list[Any]], Any]:
    """The rules in LTNtorch.

    Maps values [B, 50] to the truth of each rule on each row, and to the aggregations over rows and
    rules.
    """
    import ltn

    conjunction = ltn.Connective(ltn.fuzzy_ops.AndProd())
    implication = ltn.Connective(ltn.fuzzy_ops.ImpliesReichenbach())
    everywhere = ltn.Quantifier(ltn.fuzzy_ops.AggregPMeanError(p=2), quantifier="f")

    def predicate(column: int, sign: float, limit: float) -> Any:
        return ltn.Predicate(
            func=lambda v: torch.sigmoid(steepness * sign * (limit - v[:, column]))
        )

    made = [
        (predicate(a, -1, low), predicate(a, 1, high), predicate(b, 1, top))
        for (a, b), (low, high, top) in zip(read.tolist(), limits.tolist(), strict=True)
    ]

    def truth(values: Tensor) -> list[Any]:
        x = ltn.Variable("x", values)
        return [
            (x, implication(conjunction(above(x), below(x)), kept(x)))
            for above, below, kept in made
        ]

    satisfied = ltn.fuzzy_ops.SatAgg()
    return truth, lambda values: satisfied(*(everywhere(x, one) for x, one in truth(values)))


def timed(work: Callable[[], object], calls: int = 1) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) * 1e3 / calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rules", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    read, limits = numbers(options.rules)
    module = ours(read, limits)
    x = torch.zeros(options.batch, 1)
    values = torch.randn(options.batch, COLUMNS, generator=torch.Generator().manual_seed(0))

    sharp, _ = theirs(read, limits, STEEP)
    report = module(x, values)
    fuzzy = torch.stack([one.value for _, one in sharp(values)], dim=1)
    fuzzy = fuzzy[:, report.rule_index]  # constraints are in the order of their banks
    clear = (
        report.robustness.abs() > 10 / STEEP
    )  # further from a limit than the width of the steepest sigmoid
    assert clear.float().mean() > 0.95, "almost every verdict is compared"
    assert bool(((fuzzy > 0.5) == report.satisfied)[clear].all()), "verdicts differ"

    _, loss = theirs(read, limits, 5.0)
    leaf = values.clone().requires_grad_()

    def forward(semantics: str) -> object:
        with torch.no_grad():
            return module(x, values, semantics=semantics).penalty  # type: ignore[arg-type]

    def backward(semantics: str) -> object:
        report = module(x, leaf, semantics=semantics)  # type: ignore[arg-type]
        return torch.autograd.grad(report.penalty, leaf)

    def peer_forward() -> object:
        with torch.no_grad():
            return loss(values)

    works: dict[str, dict[str, Callable[[], object]]] = {
        "forward": {
            "exact": lambda: forward("exact"),
            "smooth": lambda: forward("smooth"),
            "LTNtorch": peer_forward,
        },
        "forward and backward": {
            "exact": lambda: backward("exact"),
            "smooth": lambda: backward("smooth"),
            "LTNtorch": lambda: torch.autograd.grad(1 - loss(leaf), leaf),
        },
    }
    gathered = torch.randn(2 * options.rules, options.batch)
    print(
        f"{options.rules} rules x {options.batch} rows of {COLUMNS} outputs, float32,"
        f" {options.repeats} repeats"
    )
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads on {os.cpu_count()} cores,"
        f" {platform.machine()}"
    )
    print(f"load before: {os.getloadavg()[0]:.1f}")
    results = []
    for claim, ways in works.items():
        ways["read and write once"] = lambda: gathered.sum()
        times: dict[str, list[float]] = {way: [] for way in ways}
        for way in ("exact", "smooth"):
            ways[way]()
        for _ in range(options.repeats):
            for way, work in ways.items():
                times[way].append(timed(work, 1 if way == "LTNtorch" else 5))
        for way, each in times.items():
            low, high = np.quantile(each, (0.25, 0.75))
            print(
                f"  {claim:22s} {way:20s} median {statistics.median(each):9.2f} ms   quartiles"
                f" {low:9.2f} .. {high:9.2f}"
            )
        for way in ("exact", "smooth"):
            ratio = statistics.median(
                b / a for a, b in zip(times[way], times["LTNtorch"], strict=True)
            )
            print(f"  {claim:22s} {way}: {ratio:.0f} times faster")
            results.append(
                compare(
                    f"{options.rules} rules x {options.batch} rows, {way} penalty, {claim}, ms",
                    times[way],
                    times["LTNtorch"],
                    "LTNtorch",
                    target=TARGETS[claim],
                    floor=statistics.median(times["read and write once"]),
                )
            )
    print(json.dumps(results))


if __name__ == "__main__":
    main()
