"""Constraint sets of parameters and predictions, and causes between clients, in packs."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg.pack import Pack, read_pack
from fedkg.pack.feasible_sets import ClientSet, KeptSet
from fedkg_compiler import compile_rules
from fedkg_compiler.diagnostics.record import Diagnostic

HEAD = """prefix plant: <https://example.org/plant#>
timeline step 5 min
output strength in MPa
label grade classes A, B, C
signal ash in %
"""
GRAPH = """@prefix plant: <https://example.org/plant#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .
plant:K1 a plant:Site ; plant:budget 10 ; fkg:client "linz" ; plant:feeds plant:K2 , plant:M7 .
plant:K2 a plant:Site ; plant:budget 0.5 ; plant:feeds plant:K3 .
plant:K3 a plant:Site ; plant:debt -1 .
plant:M7 fkg:client "linz" ; plant:feeds plant:K2 .
"""
SITES = "for ?k, ?r where { ?k a plant:Site OPTIONAL { ?k plant:budget ?r } }"


def compiled(text: str, folder: Path) -> tuple[Pack | None, tuple[Diagnostic, ...]]:
    (folder / "g.ttl").write_text(GRAPH, encoding="utf-8")
    compilation = compile_rules(text=HEAD + text, graphs=[folder / "g.ttl"], reason=False)
    return compilation.pack, compilation.diagnostics


def the_set(text: str, folder: Path) -> KeptSet:
    pack, problems = compiled(text, folder)
    assert pack is not None, [problem.message for problem in problems]
    (kept,) = pack.manifest.sets
    return kept


def test_a_radius_for_each_client_and_the_job_s_where_the_graph_has_none(tmp_path: Path) -> None:
    kept = the_set(
        f"set sparse {SITES} keep parameters in l1_ball(radius = 2 * ?r)".replace("2 * ", ""),
        tmp_path,
    )
    iri = "https://example.org/plant#"
    assert kept.clients == (
        ClientSet(client="K2", iri=f"{iri}K2", numbers=(0.5,)),
        ClientSet(client="K3", iri=f"{iri}K3", numbers=(None,)),
        ClientSet(client="linz", iri=f"{iri}K1", numbers=(10.0,)),
    )
    assert kept.numbers_of("linz") == kept.numbers_of(f"{iri}K1") == {"radius": 10}
    assert kept.numbers_of("wien") is None


@pytest.mark.parametrize(
    ("written", "on", "target", "arguments", "numbers", "unit"),
    [
        ("parameters in l2_ball(radius = job)", "parameters", "", ("radius",), (None,), ""),
        ("parameters in l2_ball(3, 1)", "parameters", "", ("radius", "center"), (3, 1), ""),
        (
            "parameters.head.weight in linf_ball()".replace("()", "(radius = 1)"),
            "parameters",
            "head.weight",
            ("radius",),
            (1,),
            "",
        ),
        (
            "strength in box(200 kPa, high = 5)",
            "predictions",
            "strength",
            ("low", "high"),
            (0.2, 5),
            "MPa",
        ),
        ("grade in simplex(total = 100 %)", "predictions", "grade", ("total",), (1,), ""),
        (
            "predictions in halfspace(1, -2, bound = 3)",
            "predictions",
            "",
            ("c1", "c2", "bound"),
            (1, -2, 3),
            "",
        ),
        (
            "strength in affine(1, bound = 3)",
            "predictions",
            "strength",
            ("c1", "bound"),
            (1, 3),
            "MPa",
        ),
    ],
)
def test_shapes(
    written: str,
    on: str,
    target: str,
    arguments: tuple[str, ...],
    numbers: tuple[float, ...],
    unit: str,
    tmp_path: Path,
) -> None:
    kept = the_set(f"set s keep {written}", tmp_path)
    assert (kept.on, kept.target, kept.arguments, kept.unit) == (on, target, arguments, unit)
    assert kept.clients == (ClientSet(numbers=numbers),)
    assert kept.numbers_of("anyone") == dict(zip(arguments, numbers, strict=True))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("set s keep parameters in l3_ball(radius = 1)", "FKG290"),
        ("set s keep parameters in l1_ball(radius = -1)", "FKG290"),
        ("set s keep parameters in l1_ball(size = 1)", "FKG290"),
        ("set s keep parameters in l1_ball(1, 2, 3)", "FKG290"),
        ("set s keep parameters in box(3, 1)", "FKG290"),
        ("set s keep parameters in box(low = 1)", "FKG290"),
        ("set s keep parameters in halfspace(bound = 1)", "FKG290"),
        ("set s keep parameters in l1_ball(radius = ash)", "FKG290"),
        ("set s keep parameters in l1_ball(radius = probability(grade, A))", "FKG290"),
        (f"signal t(?k) in %\nset s {SITES} keep strength in box(low = t(?k), high = 3)", "FKG290"),
        (f"set s {SITES} keep parameters in l1_ball(radius = unheard(?r))", "FKG202"),
        ("set s keep strength in nonnegative(3)", "FKG290"),
        ("set s keep parameters in l1_ball(radius = 1 bar)", "FKG213"),
        ("set s keep strength in box(0, 5 degC)", "FKG213"),
        ("set s keep ash in box(0, 1)", "FKG289"),
        ("set s keep strenght in box(0, 1)", "FKG289"),
        (
            "set s for ?r where { ?k plant:budget ?r } keep parameters in l1_ball(radius = ?r)",
            "FKG291",
        ),
        (
            (
                "set s for ?k, ?r where { ?k a plant:Site . ?x plant:budget ?r } keep parameters in"
                " l1_ball(radius = ?r)"
            ),
            "FKG291",
        ),
        (
            "set s for ?k, ?r where { ?k plant:debt ?r } keep parameters in l1_ball(radius = ?r)",
            "FKG290",
        ),
        ("set s keep strength in box(0, 1)\nset s keep strength in box(0, 2)", "FKG204"),
        ("cause c for ?a, ?b where { ?a plant:feeds ?b } allow ?a drives ?c", "FKG201"),
        ("cause c for ?a, ?b where { ?a plant:feeds ?b } allow ?a drives ?b lag 3 bar", "FKG213"),
        ("cause c for ?a, ?b where { ?a plant:budget ?b } allow ?a drives ?b", "FKG291"),
    ],
)
def test_a_wrong_statement_gives_its_error_code(text: str, code: str, tmp_path: Path) -> None:
    assert [
        problem.code for problem in compiled(text, tmp_path)[1] if problem.severity == "error"
    ] == [code]


def test_a_lag_that_is_no_time_is_told_how_to_be_written(tmp_path: Path) -> None:
    text = "cause c for ?a, ?b where { ?a plant:feeds ?b } allow ?a drives ?b lag 10 bar"
    assert [
        problem.help for problem in compiled(text, tmp_path)[1] if problem.code == "FKG213"
    ] == ["write: lag 5 min"]


def test_clients_in_a_sheet_may_begin_with_a_number(tmp_path: Path) -> None:
    (tmp_path / "plants.csv").write_text("k;to;r\n1A;3rd;2\n3rd;1A;1\n", encoding="utf-8")
    (tmp_path / "r.fkg").write_text(
        'set s for ?k, ?r in table "plants.csv" keep parameters in l1_ball(radius = ?r)\n'
        'cause c for ?k, ?to in table "plants.csv" allow ?k drives ?to\n',
        encoding="utf-8",
    )
    found = compile_rules([tmp_path / "r.fkg"])
    assert found.pack is not None, found.diagnostics
    (kept,) = found.pack.manifest.sets
    assert [(one.client, one.numbers) for one in kept.clients] == [("1A", (2.0,)), ("3rd", (1.0,))]
    (cause,) = found.pack.manifest.causes
    assert [(drive.driver, drive.driven) for drive in cause.drives] == [
        ("1A", "3rd"),
        ("3rd", "1A"),
    ]


def test_causes_join_clients(tmp_path: Path) -> None:
    """K1 and M7 belong to the client linz.

    One feeding the other is not a cause. Both feed K2, which is one.
    """
    pack, problems = compiled(
        "cause line for ?a, ?b where { ?a plant:feeds ?b } allow ?a drives ?b lag 12 min", tmp_path
    )
    assert pack is not None, problems
    (cause,) = pack.manifest.causes
    assert [(drive.driver, drive.driven) for drive in cause.drives] == [
        ("K2", "K3"),
        ("linz", "K2"),
    ]
    assert (cause.lag, cause.steps) == (720, 3)
    assert [problem.code for problem in problems] == ["FKG292"]


def test_sections_stand_only_where_they_are_used(tmp_path: Path) -> None:
    pack, _ = compiled(
        "set s keep parameters in nonnegative(0)".replace("0", "radius = 1"), tmp_path
    )
    assert pack is None
    pack, _ = compiled("set s keep parameters in l1_ball(radius = job)", tmp_path)
    assert pack is not None
    assert sorted(pack.manifest.sections) == ["constraints", "sets"]
    assert read_pack(pack.to_bytes()).manifest == pack.manifest
    pack, _ = compiled("rule r require ash <= 3 %", tmp_path)
    assert pack is not None
    assert sorted(pack.manifest.sections) == ["constraints"]
