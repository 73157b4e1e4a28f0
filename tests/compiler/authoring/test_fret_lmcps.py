"""NASA's requirements of the Lockheed Martin challenge problems: the rules of
`fedkg new --from fret` have the verdicts of the published formulas.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from command import call
from fret_traces import Oracle, rule_verdicts
from shared import SHARED

from fedkg.pack import Pack
from fedkg_compiler import compile_rules

EXPORT = SHARED / "external" / "fret" / "LMCPS_requirements.json"
pytestmark = pytest.mark.skipif(not EXPORT.is_file(), reason=f"there is no {EXPORT}")

LONG = ("REG-001", "REG-002", "REG-003", "REG-004", "REG-005", "NN-003", "NN-004")
"""Requirements about 100 or 200 steps."""
NOT_DEFINED = {
    "EUL-004": "det_3x3",
    "EUL-008": "det_3x3",
    "EB-001": "det_3x3",
    "EB-002": "det_3x3",
    "NLG-002&3": "`mag`, `dot`",
    "NLG-005a": "mag",
    "NLG-005b": "mag",
    "NLG-006": "mag",
    "NLG-007": "`yout`, `Xtarg`",
}
"""Requirements with functions that the export does not define: determinants, vectors."""
NOT_TYPED = {"NLG-001": "`Vv`, `yout`", "NLG-004": "`yout`, `Xr`"}
"""Requirements with variables that have no data type."""


@cache
def document() -> Any:
    return json.loads(EXPORT.read_text(encoding="utf-8"))


def drafted(
    capsys: pytest.CaptureFixture[str], folder: Path, component: str
) -> tuple[Pack, dict[str, str]]:
    """The rules of a component, with a column that tells traces apart, and their names by
    requirement.
    """
    path = folder / f"{component}.fkg"
    done = call(
        capsys, "new", "--from", "fret", EXPORT, "-o", path, "--component", component, "--json"
    )
    assert done.code == 0, done.err
    text = path.read_text(encoding="utf-8")
    text = text.replace("timeline ends clip", 'timeline trace column "trace" ends clip')
    rules = {one["requirement"]: one["rule"] for one in done.json["requirements"] if one["rule"]}
    compilation = compile_rules(text=text, reason=False)
    assert compilation.pack is not None
    return compilation.pack, rules


def oracle(requirement: Any) -> Oracle:
    semantics = requirement["semantics"]
    mine = [
        one
        for one in document()["variables"]
        if one.get("component_name") == semantics["component_name"] and "idType" in one
    ]
    constants = {}
    for one in mine:
        try:
            constants[one["variable_name"]] = float(one["assignment"])
        except ValueError:
            continue
    types = {one["variable_name"]: one["dataType"] for one in mine if one["dataType"]}
    return Oracle.of(
        (semantics["pt"], semantics["ptExpanded"]),
        (semantics["ft"], semantics["ftExpanded"]),
        {name: kind for name, kind in types.items() if name not in constants},
        constants,
    )


@pytest.mark.slow
def test_every_requirement_has_a_rule_or_a_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "lm.fkg"
    done = call(capsys, "new", "--from", "fret", EXPORT, "-o", path, "--json")
    listed = {one["requirement"]: one for one in done.json["requirements"]}
    assert len(listed) == 97
    reasons = {name: one["reason"] for name, one in listed.items() if not one["rule"]}
    assert set(reasons) == {*NOT_DEFINED, *NOT_TYPED}
    for name, missing in (NOT_DEFINED | NOT_TYPED).items():
        assert missing in reasons[name]
    assert done.json["rules"] == 86
    assert all(one["source"] == "text" for one in listed.values() if one["rule"])
    text = path.read_text(encoding="utf-8")
    assert text.count("# not translated: ") == 11
    assert sum(line.startswith("rule ") for line in text.splitlines()) == 86
    assert all(len(line) <= 100 for line in text.splitlines() if line.startswith("#"))
    assert not [one for one in done.json["diagnostics"] if one["severity"] != "info"]
    assert call(capsys, "fmt", path, "--check").code == 0


def compared(
    capsys: pytest.CaptureFixture[str],
    folder: Path,
    count: int,
    longest: int,
    *,
    long: bool,
    components: Collection[str] = (),
) -> Iterator[tuple[str, int, int]]:
    """Compare the verdicts of requirements; yield how many traces satisfied and violated each."""
    requirements = document()["requirements"]
    for component in sorted({one["semantics"]["component_name"] for one in requirements}):
        if component == "NLGuidance" or (components and component not in components):
            continue  # none of NLGuidance has a rule
        pack, rules = drafted(capsys, folder, component)
        for seed, requirement in enumerate(requirements):
            name = requirement["reqid"]
            if name not in rules or requirement["semantics"]["component_name"] != component:
                continue
            if name.startswith(LONG) is not long:
                continue
            traces = oracle(requirement).traces(seed, count, longest)
            expected = [verdict for _, verdict in traces]
            assert rule_verdicts(pack, rules[name], [trace for trace, _ in traces]) == expected, (
                name
            )
            yield name, sum(expected), len(expected) - sum(expected)


@pytest.mark.slow
def test_conditions_modes_and_earlier_values(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wanted = ("Autopilot", "FSM", "RollAutopilot")
    found = list(compared(capsys, tmp_path, 24, 8, long=False, components=wanted))
    assert len(found) == 10 + 3 + 7
    # Both verdicts occur, so a rule that says nothing, or too much, does not pass.
    assert [name for name, satisfied, violated in found if not satisfied or not violated] == []


@pytest.mark.slow
def test_all_requirements(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = list(compared(capsys, tmp_path, 50, 8, long=False))
    assert len(found) == 86 - 8
    assert [name for name, satisfied, violated in found if not satisfied or not violated] == []


@pytest.mark.slow
def test_traces_longer_than_the_durations(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    wanted = ("NN", "Regulator")
    found = list(compared(capsys, tmp_path, 20, 230, long=True, components=wanted))
    assert len(found) == 8
    assert [name for name, satisfied, violated in found if not satisfied or not violated] == []
