"""The quick check finds what a compilation of the whole text finds, whatever was edited before."""

from __future__ import annotations

import gc
import random
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.editor import incremental_check
from fedkg_compiler.editor.incremental_check import IncrementalCheck
from fedkg_compiler.editor.rule_document import RuleDocument
from fedkg_compiler.frontends.fkg.syntax import parser
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import Branch, parse_statement
from fedkg_compiler.graph.graph import Graph
from fedkg_compiler.graph.load import load_graph
from fedkg_compiler.input_files import instead
from fedkg_compiler.pipeline import compile_rules

ROOT = Path(__file__).parents[3]
FILES = [
    ROOT / "examples/milling/rules.fkg",
    ROOT / "examples/building/rules.fkg",
    ROOT / "examples/hvac/rules.fkg",
    ROOT / "examples/plants/rules.fkg",
    ROOT / "rules/templates/until.fkg",
]


def check_whole(path: Path, text: str) -> list[str]:
    with instead({path: text.encode()}):
        found = compile_rules([path], reason=False, check_only=True).diagnostics
    return sorted(map(repr, found))


DECLARING = ("use ", "prefix ", "timeline ", "signal ", "output ", "constant ", "template ")


def edit(text: str, draw: random.Random) -> str:
    """Damage, remove, repeat or move a line, every second time a declaration, or repair nothing."""
    lines = text.split("\n")
    declarations = [number for number, line in enumerate(lines) if line.startswith(DECLARING)]
    everywhere = range(len(lines))
    at = draw.choice(declarations if declarations and draw.random() < 0.5 else everywhere)
    match draw.randrange(8):
        case 0:
            lines[at] = lines[at].replace(" <= ", " => ", 1).replace("require", "requires", 1)
        case 1:
            words = lines[at].split(" ")
            words[draw.randrange(len(words))] = "q1"
            lines[at] = " ".join(words)
        case 2:
            del lines[at]
        case 3:
            lines.insert(at, draw.choice(["", "constant q1 = 3", lines[at]]))
        case 4:
            lines[at] = re.sub(r" in [\w./]+", draw.choice(["", " in m", " in kPa"]), lines[at])
        case 5:
            lines[at] = re.sub(r"\d+", lambda found: f"{found[0]}1", lines[at], count=1)
        case 6:
            lines[at] = re.sub(r"(\w+):(\w+)", r"\1:\2x", lines[at], count=1)
        case _:
            lines[at] = lines[at].replace("bar", "degC").replace("degC", "K")
    return "\n".join(lines)


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
@pytest.mark.parametrize("edits", [5, pytest.param(30, marks=pytest.mark.slow)])
def test_edits_one_after_the_other(path: Path, edits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(path.stem)
    monkeypatch.setattr(incremental_check, "part_size", lambda *_: 1)
    check = IncrementalCheck()
    original = path.read_text()
    texts = [original]
    for _ in range(edits):
        texts.append(edit(texts[-1] if draw.random() < 0.7 else original, draw))
    for text in texts:
        if draw.random() < 0.5:
            next(check.check_in_parts(RuleDocument(path, text)))  # the next edit interrupts it
            continue
        found = check.check(RuleDocument(path, text))
        assert sorted(map(repr, found)) == check_whole(path, text)


def test_a_change_of_one_rule_parses_no_other_statement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    signals = "".join(f"signal s{one} in bar\n" for one in range(20))
    text = f"{signals}rule a require s0 <= 8 bar\nrule b require s1 <= 6 bar\n"
    check = IncrementalCheck()
    check.check(RuleDocument(tmp_path / "x.fkg", text))
    parsed: list[str] = []

    def record(statement: str) -> Branch | None:
        parsed.append(statement)
        return parse_statement(statement)

    monkeypatch.setattr(parser, "parse_statement", record)
    found = check.check(RuleDocument(tmp_path / "x.fkg", text.replace("s1 <= 6", "x <= 6")))
    assert [(one.code, one.span.line) for one in found] == [("FKG200", 22)]
    assert parsed == ["rule b require x <= 6 bar\n"]


@pytest.mark.parametrize(
    ("old", "new", "codes"),
    [
        ("signal s0 in bar", "signal s0 in K", ["FKG213"] * 40),
        ("constant most = 8 bar", "constant most = 8 K", ["FKG213"] * 40),
        ("template low(x)", "template low(x, y)", ["FKG269", *["FKG266"] * 40]),
        ("signal s0 in bar\n", "\n", ["FKG217"]),
    ],
)
def test_rules_that_read_an_edited_declaration_follow_in_parts(
    tmp_path: Path, old: str, new: str, codes: list[str]
) -> None:
    rules = "".join(f"rule r{one} require follows low(s0)\n" for one in range(40))
    text = f"signal s0 in bar\nconstant most = 8 bar\ntemplate low(x) = x <= most\n{rules}"
    check = IncrementalCheck()
    assert check.check(RuleDocument(tmp_path / "x.fkg", text)) == ()
    edited = text.replace(old, new)
    parts = [*check.check_in_parts(RuleDocument(tmp_path / "x.fkg", edited))]
    assert len(parts) > 1
    assert [one.code for one in parts[-1]] == codes
    assert sorted(map(repr, parts[-1])) == check_whole(tmp_path / "x.fkg", edited)
    again = RuleDocument(tmp_path / "x.fkg", text)
    next(check.check_in_parts(again))
    assert check.check(again) == ()


@pytest.mark.parametrize(("fixed", "each"), [(0.0, 0.0), (0.05, 0.0005), (0.6, 0.0001)])
def test_parts_repeat_at_most_as_much_as_they_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fixed: float, each: float
) -> None:
    now = 0.0

    def compile_slowly(path: Path, text: str, *_: object) -> tuple[Diagnostic, ...]:
        nonlocal now
        now += fixed + each * text.count("rule ")
        return ()

    clock = SimpleNamespace(process_time=lambda: now)
    monkeypatch.setattr(incremental_check, "time", clock)
    monkeypatch.setattr(incremental_check, "check_text", compile_slowly)
    rules = "".join(f"rule r{one} require x <= 8\n" for one in range(900))
    check = IncrementalCheck()
    check.check(RuleDocument(tmp_path / "x.fkg", f"signal x\n{rules}"))
    whole, now = now, 0.0
    parts = check.check_in_parts(RuleDocument(tmp_path / "x.fkg", f"signal x in m\n{rules}"))
    for _ in parts:
        now += 10  # what the server does in between
    assert now % 10 <= 2.2 * whole


def test_each_warning_about_counts_is_kept(tmp_path: Path) -> None:
    signals = "signal w in kW\nsignal n in 1/min\nsignal m in 1/s\n"
    text = f"{signals}rule a require w / n <= 5 J\nrule b require w / m <= 5 J\n"
    found = IncrementalCheck().check(RuleDocument(tmp_path / "x.fkg", text))
    assert [(one.code, one.span.line) for one in found] == [("FKG218", 4), ("FKG218", 5)]


def test_findings_of_the_analysis_stay_until_one_of_their_rules_changes(tmp_path: Path) -> None:
    path = tmp_path / "x.fkg"
    rules = "rule a require x <= 8 bar\nrule b require x <= 6 bar\nrule c require x >= 0 bar\n"
    text = f"signal x in bar\n{rules}"
    check = IncrementalCheck()
    document = RuleDocument(path, text)
    with instead({path: text.encode()}):
        whole = compile_rules([path]).diagnostics

    def found_after(old: str, new: str) -> list[tuple[str, int]]:
        check.remember(document, whole)
        found = check.check(RuleDocument(path, text.replace(old, new)))
        return [(one.code, one.span.line) for one in found]

    assert found_after("x >= 0 bar", "x >= 1 bar") == [("FKG505", 2)]
    assert found_after("rule a", "\nrule a") == [("FKG505", 3)]
    assert found_after("<= 8 bar", "<= 9 bar") == []
    assert found_after("<= 6 bar", "<= 5 bar") == []


def test_findings_in_other_files_stay_until_a_change_may_affect_every_statement(
    tmp_path: Path,
) -> None:
    text = "prefix p: <urn:p:>\nsignal x in bar\nrule a require x <= 8 bar\n"
    document = RuleDocument(tmp_path / "x.fkg", text)
    place = Span(file="plant.ttl", line=1, column=1, end_line=1, end_column=2)
    elsewhere = Diagnostic(code="FKG103", severity="error", span=place, message="wrong")
    check = IncrementalCheck()
    for old, new, expected in [("8 bar", "9 bar", (elsewhere,)), ("urn:p:", "urn:q:", ())]:
        check.remember(document, [elsewhere])
        assert check.check(RuleDocument(document.path, text.replace(old, new))) == expected


def test_one_graph_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*given: Any, **named: Any) -> Any:
        kept.append(sum(type(one) is Graph for one in gc.get_objects()))
        return load_graph(*given, **named)

    kept: list[int] = []
    monkeypatch.setattr("fedkg_compiler.graph.load.load_graph", load)
    path, check = FILES[0], IncrementalCheck()
    for lines in range(3):
        check.check(RuleDocument(path, "\n" * lines + path.read_text()))
    assert kept == [kept[0]] * 3
