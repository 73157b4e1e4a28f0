"""`fedkg new --from fret` on small exports: forms of FRETish, and files with mistakes.

The expected verdicts come from an evaluator of scopes, triggers and timings that follows FRET's
own description of them: a scope gives intervals, a condition gives triggers inside an interval, and
a timing says what a trigger requires until the end of its interval.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from command import Done, call
from fret_traces import Values, rule_verdicts

from fedkg_compiler import compile_rules

SCOPES = {
    "": "null",
    "in m mode": "in",
    "while m": "in",
    "When not in m": "notin",
    "before m": "before",
    "after m": "after",
}
CONDITIONS = {"": "null", "if c": "regular", "whenever c": "whenever"}
TIMINGS = {
    "immediately": "immediately",
    "at the next timepoint": "next",
    "always": "always",
    "never": "never",
    "": "eventually",
    "eventually": "eventually",
    "finally": "finally",
    "until s": "until",
    "before s": "before",
    "within 2 seconds": "within",
    "for 2 ticks": "for",
    "after 1 step": "after",
}


def export(*texts: str, variables: Sequence[dict[str, Any]] | None = None, **fields: Any) -> str:
    """An export with the texts as requirements R1, R2, ...; its variables are truth values."""
    if variables is None:
        variables = [variable(name, "boolean") for name in "mcsr"]
    requirements = [
        {"reqid": f"R{i}", "project": "P", "fulltext": text, **fields}
        for i, text in enumerate(texts, 1)
    ]
    return json.dumps({"requirements": requirements, "variables": variables})


def variable(name: str, data_type: str, component: str = "U", **fields: Any) -> dict[str, Any]:
    return {
        "project": "P",
        "component_name": component,
        "variable_name": name,
        "dataType": data_type,
        "idType": "Input",
        "assignment": "",
        **fields,
    }


def drafted(
    capsys: pytest.CaptureFixture[str], folder: Path, text: str, *options: str
) -> tuple[Done, Path]:
    (folder / "r.json").write_text(text, encoding="utf-8")
    path = folder / "r.fkg"
    done = call(capsys, "new", "--from", "fret", folder / "r.json", "-o", path, *options)
    return done, path


def intervals(scope: str, mode: Sequence[bool]) -> list[range]:
    """The intervals in which a requirement applies, as FRET describes them."""
    length = len(mode)
    inside = list(mode) if scope == "in" else [not one for one in mode]
    first = next((t for t in range(length) if mode[t]), length)
    if scope == "null":
        return [range(length)]
    if scope == "before":
        return [range(first)]
    if scope == "after":
        end = next((t for t in range(first, length) if not mode[t]), length)
        return [range(end, length)]
    starts = [t for t in range(length) if inside[t] and (t == 0 or not inside[t - 1])]
    ends = [t for t in range(length) if inside[t] and (t == length - 1 or not inside[t + 1])]
    return [range(start, end + 1) for start, end in zip(starts, ends, strict=True)]


def triggers(condition: str, holds: Sequence[bool], interval: range) -> list[int]:
    if condition == "null":
        return list(interval[:1])
    found = [t for t in interval if holds[t]]
    if condition == "regular":
        found = [t for t in found if t == interval.start or not holds[t - 1]]
    return found


def required(timing: str, t: int, last: int, r: Sequence[bool], s: Sequence[bool]) -> bool:
    """What the timing requires from trigger `t` in an interval that ends with step `last`."""
    rest = range(t, last + 1)
    match timing:
        case "immediately":
            return r[t]
        case "next":
            return t == last or r[t + 1]
        case "always":
            return all(r[u] for u in rest)
        case "never":
            return not any(r[u] for u in rest)
        case "eventually":
            return any(r[u] for u in rest)
        case "finally":
            return r[last]
        case "until":
            stop = next((u for u in rest if s[u]), last + 1)
            return all(r[u] for u in range(t, stop))
        case "before":
            stop = next((u for u in rest if s[u]), None)
            return stop is None or any(r[u] for u in range(t, stop))
        case "within":
            return any(r[u] for u in rest[:3]) or last < t + 2
        case "for":
            return all(r[u] for u in rest[:3])
        case _:  # after 1 step: false at distances 0 and 1, true at distance 2
            return not any(r[u] for u in rest[:2]) and (last < t + 2 or r[t + 2])


def satisfied(scope: str, condition: str, timing: str, trace: Values) -> bool:
    return all(
        required(timing, t, interval[-1], trace["r"], trace["s"])
        for interval in intervals(scope, trace["m"])
        for t in triggers(condition, trace["c"], interval)
    )


def traces(random: Random, count: int) -> Iterator[Values]:
    for _ in range(count):
        length = random.randint(1, 9)
        share = {name: random.choice([0.2, 0.5, 0.9]) for name in "mcsr"}
        yield {name: [random.random() < share[name] for _ in range(length)] for name in share}


@pytest.mark.slow
@pytest.mark.parametrize("scope", SCOPES)
def test_scopes_conditions_and_timings(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, scope: str
) -> None:
    forms = [(condition, timing) for condition in CONDITIONS for timing in TIMINGS]
    texts = [
        " ".join(f"{scope} {condition} U shall {timing} satisfy r".split())
        for condition, timing in forms
    ]
    done, path = drafted(capsys, tmp_path, export(*texts), "--json")
    assert [one["reason"] for one in done.json["requirements"]] == [""] * len(forms)
    text = path.read_text(encoding="utf-8")
    text = text.replace("timeline ends clip", 'timeline trace column "trace" ends clip')
    pack = compile_rules(text=text, reason=False).pack
    assert pack is not None
    drawn = list(traces(Random(scope), 100))
    for i, (condition, timing) in enumerate(forms, 1):
        expected = [
            satisfied(SCOPES[scope], CONDITIONS[condition], TIMINGS[timing], trace)
            for trace in drawn
        ]
        assert {*expected} == {True, False}
        assert rule_verdicts(pack, f"R{i}", drawn) == expected, texts[i - 1]


@pytest.mark.slow
def test_expressions_constants_and_names(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    variables = [
        variable("x", "double"),
        variable("limit", "double", idType="Internal", assignment="2.5"),
        variable("mean", "double", idType="Internal", assignment="(x + pre x) / 2.0"),
        variable("on", "boolean"),
        variable("x", "int32", "W"),
        variable("limit", "double", "W", idType="Internal", assignment="4.0"),
    ]
    text = export(
        "The U shall always satisfy !(x > limit) xor on",
        "U shall always satisfy preReal(1.0, x) <= x <=> (on = true & mean != -0.5)",
        "if persisted(2, on) U shall immediately satisfy absReal(mean) < 1.0 | preBool(true, !on)",
        "W shall always satisfy x < limit",
        variables=variables,
    )
    done, path = drafted(capsys, tmp_path, text)
    assert done.out.splitlines()[1].split() == ["R1", "U", "R1", "text"]
    assert "4 of 4 requirements" in done.out
    assert (
        path.read_text(encoding="utf-8").split("timeline")[1]
        == """ ends clip

# Component U
constant U_limit = 2.5
signal U_x  in dimensionless  column "x"
# mean is internal, defined in FRET as: (x + pre x) / 2.0
signal mean  in dimensionless  column "mean"
signal on    in boolean        column "on"

# R1: The U shall always satisfy !(x > limit) xor on
rule R1  require not U_x > U_limit xor on is true

# R2: U shall always satisfy preReal(1.0, x) <= x <=> (on = true & mean != -0.5)
rule R2  require U_x 1 ago initially 1.0 <= U_x iff on is true and mean != -0.5

# R3: if persisted(2, on) U shall immediately satisfy absReal(mean) < 1.0 | preBool(true, !on)
rule R3
  require if on is true for at least 2 begins then abs(mean) < 1.0 or (weak previous on is not true)

# Component W
constant W_limit = 4.0
signal W_x  in dimensionless  column "x"

# R4: W shall always satisfy x < limit
rule R4  require W_x < W_limit
"""
    )
    assert call(capsys, "check", path).code == 0


def test_operators_without_parentheses(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pairs = (
        ("m & c | !s & r | m", "(m & c) | ((!s) & r) | m"),
        ("m & c -> s | r", "(m & c) -> (s | r)"),
        ("m xor c & s <-> r", "(m xor (c & s)) <-> r"),
        ("m <-> c <-> r", "(m <-> c) <-> r"),
    )
    texts = [f"U shall always satisfy {text}" for pair in pairs for text in pair]
    _, path = drafted(capsys, tmp_path, export(*texts))
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [line.split(maxsplit=2)[2] for line in lines if line.startswith("rule")]
    assert len(found) == len(texts)
    assert found[::2] == found[1::2]


def test_one_component(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = export("U shall always satisfy r", "V shall always satisfy r")
    done, _ = drafted(capsys, tmp_path, text, "--component", "U", "--json")
    assert [one["requirement"] for one in done.json["requirements"]] == ["R1"]
    done, _ = drafted(capsys, tmp_path, text, "--component", "u", "--force")
    assert done.code == 1
    assert "no requirements of the component `u`" in done.err
    assert "did you mean `U`?" in done.err


def test_a_text_that_is_not_translated_falls_back_to_its_formula(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = export(
        "only in m U shall always satisfy r",
        semantics={"pt": "(H ((! m) -> (! r)))", "ft": "(LAST V ((! m) -> (! r)))"},
    )
    done, path = drafted(capsys, tmp_path, text, "--json")
    (found,) = done.json["requirements"]
    assert (found["rule"], found["source"]) == ("R1", "formula")
    written = path.read_text(encoding="utf-8")
    assert "rule R1  require if m is not true then r is not true\n" in written
    assert "# translated from the published formula, because a scope with `only`" in written


def test_a_rule_is_compared_with_the_published_formula(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    requirements = [
        {"reqid": name, "project": "P", "fulltext": text, "semantics": {"pt": formula}}
        for name, text, formula in (
            ("same", "if c U shall immediately satisfy r", "(H ((c & (Z (! c))) -> r))"),
            ("other", "if c U shall immediately satisfy r", "(H (c -> r))"),
            ("first", "U shall for 2 ticks satisfy r", "(H ((O[<=2] FTP) -> r))"),
            ("broken", "U shall always satisfy r", "(H <b>r</b>)"),
        )
    ]
    variables = [variable(name, "boolean") for name in "cr"]
    text = json.dumps({"requirements": requirements, "variables": variables})
    done, path = drafted(capsys, tmp_path, text, "--json")
    same, other, first, broken = (one["differing_traces"] for one in done.json["requirements"])
    # A condition that lasts is a trigger at its first step only.
    assert (same, first, broken) == (0, 0, None)
    assert 0 < other < 60
    shown = call(capsys, "new", "--from", "fret", tmp_path / "r.json", "-o", path, "--force").out
    assert f"differs from its formula on {other} of 60 random" in " ".join(shown.split())
    assert "formula" not in path.read_text(encoding="utf-8").partition("timeline")[2]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("U shall always satisfy r &", "fulltext, character 27: it ends too early"),
        ("U should satisfy r", "fulltext, character 3: `should` is not expected"),
        ("U shall always satisfy r = = r", "fulltext, character 28: `=` is not expected"),
        ("U shall always satisfy r | r xor r", "fulltext, character 30: `xor` here needs paren"),
        ("U shall always satisfy r xor r | r", "fulltext, character 32: `|` here needs paren"),
        ("U shall always satisfy r -> r => r", "fulltext, character 31: `=>` here needs paren"),
        ("U shall always satisfy r <-> r -> r", "fulltext, character 32: `->` here needs paren"),
        ("if r -> r <=> r U shall satisfy r", "fulltext, character 11: `<=>` here needs paren"),
        ("U shall always satisfy r | | r", "fulltext, character 28: `|` is not expected"),
        ("U shall for 1.5 secs satisfy r", "fulltext, character 13: `1.5` is not a whole number"),
        ("U shall always satisfy " + "!" * 400 + "r", "nested more than 150 deep"),
        ("U shall always satisfy " + "r & " * 9_000 + "r", "at most 20,000 are read"),
        ("U shall always satisfy q", "no data type for the variable `q`"),
        ("U shall always satisfy t > 1", "(string is not a number or boolean)"),
        ("U shall always satisfy f(r) > 1", "does not define the function `f`"),
        ("U shall always satisfy r + 1 > 2", "`r` is a truth value and is used as a number"),
        ("U shall always satisfy x", "`x` is a number and is used as a condition"),
        ("U shall always satisfy x > 1 | true", "every trace is satisfied"),
    ],
)
def test_what_is_not_translated_has_a_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, reason: str
) -> None:
    variables = [variable("r", "boolean"), variable("x", "double"), variable("t", "string")]
    done, path = drafted(
        capsys, tmp_path, export(text, "U shall always satisfy r", variables=variables), "--json"
    )
    first, second = done.json["requirements"]
    assert (first["rule"], second["rule"]) == ("", "R2")
    assert reason in first["reason"]
    assert reason in " ".join(path.read_text(encoding="utf-8").replace("\n#   ", " ").split())


@pytest.mark.parametrize(
    ("body", "received"),
    [
        (b"", "no JSON; line 1, column 1"),
        (b"tag,low,high\n", "no JSON; line 1, column 1"),
        (b"\xff\xfe{", "byte 1 is not UTF-8"),
        (b'{"a": 1}', 'an object with the keys "a"'),
        (b"3", "JSON of another kind: 3"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"requirements": [{"reqid": "R"}]}', "requirements.0.fulltext: Field required"),
        (b'{"requirements": [7]}', "requirements.0"),
        (b'{"requirements": [], "variables": 7}', "variables"),
    ],
)
def test_a_file_that_is_not_an_export(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, body: bytes, received: str
) -> None:
    (tmp_path / "r.json").write_bytes(body)
    path = tmp_path / "r.fkg"
    done = call(capsys, "new", "--from", "fret", tmp_path / "r.json", "-o", path)
    assert done.code == 1
    assert "is not an export of FRET" in done.err
    assert received in done.err
    assert not path.exists()


def test_an_export_without_requirements(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    done, path = drafted(capsys, tmp_path, '{"requirements": [], "variables": []}')
    assert done.code == 1
    assert "has no requirements" in done.err
    assert not path.exists()


def test_more_requirements_than_a_rule_file_has_statements(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    done, path = drafted(capsys, tmp_path, export(*["U shall satisfy r"] * 5_001))
    assert done.code == 1
    assert "limit `statements`" in done.err
    assert not path.exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--from", "fret"), "takes one file with requirements"),
        (("--from", "fret", "a.json", "b.json"), "received: 2 files"),
        (("--from", "fret", "a.json", "--sites", "s.yaml"), "--sites drafts rules"),
        (("a.csv", "--component", "U"), "--component selects FRET requirements"),
        (("--from", "word", "a.json"), "fret"),
    ],
)
def test_wrong_options(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: tuple[str, ...], message: str
) -> None:
    done = call(capsys, "new", *options, "-o", tmp_path / "r.fkg")
    assert done.code == 2
    assert message in " ".join(done.err.split())


def test_hidden_characters_stay_out_of_comments(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = export("U shall always satisfy r \u202e\x07\nrule x require r >= 1")
    _, path = drafted(capsys, tmp_path, text, "--json")
    written = path.read_text(encoding="utf-8")
    assert "\u202e" not in written
    assert [line for line in written.splitlines() if line.startswith("rule")] == []
