"""Random rules on random tables, compared with an independent meaning in plain Python."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest
from random_rules import GRAPH, HEAD, Cells, Trace, Writer, Written

from fedkg.evaluation import evaluate
from fedkg.tables import read_bytes
from fedkg_compiler.pipeline import compile_rules

Rows = list[tuple[str, int, str, Cells]]
"""Trace, step, machine and values."""


def drawn(source: random.Random) -> Rows:
    """Up to three traces with gaps and missing cells, in any order."""
    rows: Rows = []
    for trace in source.sample(["x", "y", "z"], source.choice([1, 2, 3])):
        step = 0
        for _ in range(source.randint(1, 8)):
            cells = {
                name: float(source.choice([1, 2, 3, 4]))
                for name in ("a", "b", "p1", "p2", "torque")
            }
            cells |= {name: float(source.choice([0, 1])) for name in ("valve", "grade")}
            cells = {
                name: math.nan if source.random() < 0.15 else value for name, value in cells.items()
            }
            rows.append((trace, step, source.choice(["M1", "M2", "M3"]), cells))
            step += source.choice([1, 1, 1, 2, 9])
    source.shuffle(rows)
    return rows


def table_of(rows: Rows) -> bytes:
    lines = ["Time,heat,machine,a,b,F1,F2,valve,grade,Torque"]
    for trace, step, machine, cells in rows:
        shown = {name: "" if math.isnan(value) else f"{value:g}" for name, value in cells.items()}
        b, second = (
            "" if math.isnan(cells[name]) else repr(cells[name] * factor)
            for name, factor in (("b", 100), ("p2", 1 / 3600))
        )
        valve, grade = (
            {"": "", "0": "off", "1": "on"}[shown["valve"]],
            {"": "", "0": "B", "1": "A"}[shown["grade"]],
        )
        time = f"2024-01-01 {step * 5 // 60:02d}:{step * 5 % 60:02d}"
        lines.append(
            ",".join(
                [
                    time,
                    trace,
                    machine,
                    shown["a"],
                    b,
                    shown["p1"],
                    second,
                    valve,
                    grade,
                    shown["torque"],
                ]
            )
        )
    return ("\n".join(lines) + "\n").encode()


def wanted(rule: Written, rows: Rows, clip: bool) -> tuple[int, int, int]:
    """The number of satisfied, violated and unknown evaluations of the rule."""
    found: list[bool | None] = []
    for machine in rule.machines:
        about = [row for row in rows if machine in ("", row[2])]
        for name in {row[0] for row in about}:
            trace = Trace({step: cells for other, step, _, cells in about if other == name}, clip)
            first_only = rule.text.startswith("require initially")
            found += [
                rule.meaning(trace, step, machine)
                for step in trace.rows
                if step == trace.first or not first_only
            ]
    return found.count(True), found.count(False), found.count(None)


def differences(seed: int, rounds: int, folder: Path) -> list[str]:
    source, wrong = random.Random(seed), list[str]()
    (folder / "plant.ttl").write_text(GRAPH, encoding="utf-8")
    for _ in range(rounds):
        clip, rows = source.random() < 0.5, drawn(source)
        rules = [Writer(source).rule() for _ in range(6)]
        text = HEAD.format(ends=" ends clip" if clip else "") + "".join(
            f"rule r{i} {rule.text}\n" for i, rule in enumerate(rules)
        )
        compilation = compile_rules(text=text, graphs=[folder / "plant.ttl"], reason=False)
        assert compilation.pack is not None, [
            (problem.message, text)
            for problem in compilation.diagnostics
            if problem.severity == "error"
        ]
        for rule, found in zip(
            rules,
            evaluate(compilation.pack, read_bytes(table_of(rows), "t.csv")).rules,
            strict=True,
        ):
            got, want = (found.satisfied, found.violated, found.unknown), wanted(rule, rows, clip)
            if got != want:
                wrong.append(
                    f"{'clip' if clip else 'strict'}: {rule.text}: {got}, and {want} is "
                    f"right\n{table_of(rows).decode()}"
                )
    return wrong


@pytest.mark.slow
def test_what_is_written_is_what_is_checked(tmp_path: Path) -> None:
    assert differences(7, 6, tmp_path) == []


@pytest.mark.slow
def test_many_more_rules(tmp_path: Path) -> None:
    assert differences(8, 60, tmp_path) == []
