"""Golden cases of lowering: the contract and the banks of small rules, as text."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from golden.cases import FILE, Case, cases_under, check

from fedkg.pack import Pack, read_pack
from fedkg.pack.formula_text import formula_text, keys_text, number_text, row_text
from fedkg_compiler.pipeline import compile_rules

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = cases_under(GOLDEN / "banks")


def dump(pack: Pack) -> str:
    """A pack as text: columns, views, then each bank with its rows."""
    lines = []
    for column in pack.manifest.contract.columns:
        span = (
            ""
            if column.span is None
            else f" span {number_text(column.span[0])} .. {number_text(column.span[1])}"
        )
        words = "" if not column.vocabulary else f" of {', '.join(column.vocabulary)}"
        unit = f" in {column.unit}" if column.unit else ""
        lines.append(
            f"{column.role} {column.name} <- {column.source!r} {column.type}{words}{unit}{span}"
        )
    lines += [
        f"view {view.kind}{' per ' + ', '.join(view.groups) if view.groups else ''}"
        + (
            ""
            if view.column is None
            else f" {pack.manifest.contract.columns[view.column].name} + {number_text(view.delta)}"
        )
        for view in pack.manifest.contract.views[1:]
    ]
    for bank in pack.banks:
        lines.append(f"bank {formula_text(bank.skeleton)}")
        for row in range(bank.rows):
            record, keys = pack.manifest.rules[int(bank.rule[row])], keys_text(pack, bank, row)
            about = pack.manifest.entities[int(bank.entity[row])]
            params = ", ".join(number_text(float(value)) for value in bank.params[row])
            shown = f"{record.name} about {about}" if about else record.name
            weight = (
                f"weight {number_text(float(bank.weight[row]))}{' output' if record.output else ''}"
            )
            lines.append(
                f"  {shown}: {row_text(pack, bank, row)}{' where ' + keys if keys else ''} |"
                f" {params} | {weight}"
            )
    return "\n".join(lines)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_banks(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (GOLDEN / "plant").iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    Path(FILE).write_text(case.source, encoding="utf-8")
    compilation = compile_rules(
        [Path(FILE)], graphs=[Path("plant.ttl")] if "plant:" in case.source else []
    )
    assert compilation.pack is not None, [problem.message for problem in compilation.diagnostics]
    again = read_pack(compilation.pack.to_bytes())
    assert again.to_bytes() == compilation.pack.to_bytes()
    check(case, dump(again))
