"""A private pack never contains a number or name of another client, however a rule asks for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plant_of_pipes import GRAPH, compile_rule
from tries import tries

from fedkg.pack import Pack
from fedkg_compiler import compile_rules

OWNED = GRAPH.replace("plant:V1 a", 'plant:V1 fkg:client "linz" ; a').replace(
    "plant:V2 a", 'plant:V2 fkg:client "wien" ; a'
)
MACHINES = """@prefix plant: <https://example.org/plant#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
plant:M1 a plant:Machine ; plant:maxTorque 61 ; fkg:client "linz" .
plant:M2 a plant:Machine ; plant:maxTorque 20 ; fkg:client "wien" .
plant:M3 a plant:Machine ; plant:maxTorque 33 .
plant:flow a <http://www.w3.org/ns/sosa/ObservableProperty> .
plant:heat a <http://www.w3.org/ns/sosa/ObservableProperty> .
"""


def numbers_in(thing: object) -> Iterator[float]:
    """Every number in every array reachable from an object.

    These are parameters of rows and members, codes, and slots.
    """
    if isinstance(thing, np.ndarray):
        if thing.dtype.kind in "fiub":
            yield from thing.astype(float).ravel().tolist()
    elif is_dataclass(thing):
        for field in fields(thing):
            yield from numbers_in(getattr(thing, field.name))
    elif isinstance(thing, dict):
        yield from numbers_in(list(thing.values()))
    elif isinstance(thing, list | tuple):
        for one in thing:
            yield from numbers_in(one)


def params_in(pack: Pack) -> set[float]:
    """The parameters of all rows, conditions and members."""
    banks = [*pack.banks, *pack.conditions]
    return {
        *numbers_in([bank.params for bank in banks]),
        *numbers_in([table.params for bank in banks for table in bank.members]),
    }


def words_in(pack: Pack) -> str:
    """Everything of the pack that is text."""
    return pack.manifest.model_dump_json()


@pytest.mark.parametrize(
    ("rule", "own"),
    [
        (
            "for ?max where { ?m a plant:Machine ; plant:maxTorque ?max } require cap <= ?max",
            {61.0, 33.0},
        ),
        ("for ?m, ?max where { ?m plant:maxTorque ?max } require cap <= ?max", {61.0}),
        (
            (
                "for ?max where { { SELECT (MIN(?x) AS ?max) WHERE { ?m plant:maxTorque ?x } } }"
                " require cap <= ?max"
            ),
            {33.0},
        ),
        ("require cap <= sum of ?x over ?x where { ?o plant:maxTorque ?x }", {94.0}),
        (
            (
                "for ?m in class plant:Machine require cap <= sum of ?x over ?o where { ?o"
                " plant:maxTorque ?x }"
            ),
            {94.0},
        ),
        ("require cap <= min of ?x over ?o where { ?o plant:maxTorque ?x }", {33.0}),
    ],
)
def test_numbers_of_others_do_not_come_by_any_query(
    rule: str, own: set[float], tmp_path: Path
) -> None:
    pack, problems = compile_rule(
        f"rule r scope client {rule}", tmp_path, graph=MACHINES, client="linz"
    )
    assert pack is not None, [problem.message for problem in problems]
    assert params_in(pack) == own
    assert "M2" not in words_in(pack)


@pytest.mark.parametrize(
    "rule",
    [
        (
            "for ?v, ?m where { ?v a plant:Vessel ; plant:in/^plant:in/plant:max ?m } require cap"
            " <= ?m"
        ),
        (
            "for ?v, ?m where { ?v a plant:Vessel . { SELECT (MAX(?x) AS ?m) WHERE { ?o plant:max"
            " ?x } } } require cap <= ?m"
        ),
        "require cap <= sum of ?m over ?m where { ?o plant:max ?m }",
        (
            "for ?v in class plant:Vessel require plain <= count of ?o over ?o where { ?o plant:max"
            " ?m }"
        ),
    ],
)
def test_paths_and_aggregates_meet_no_foreign_vessel(rule: str, tmp_path: Path) -> None:
    """10 belongs to linz, 5 is common, 20 belongs to wien.

    25, 30 and 35 are sums that include it, and there are two vessels without it.
    """
    pack, problems = compile_rule(
        f"signal plain\nrule r scope client {rule}", tmp_path, graph=OWNED, client="linz"
    )
    assert pack is not None, [problem.message for problem in problems]
    assert not {20.0, 25.0, 30.0, 35.0, 3.0} & params_in(pack)
    assert "V2" not in words_in(pack)


def test_a_pipe_into_a_foreign_vessel_is_no_member(tmp_path: Path) -> None:
    """P3 has no owner and refers only to V2 of wien, so it is withheld together with its sensor."""
    text = (
        "rule r scope client for ?v in class plant:Vessel require sum of flow(?p) over ?p in class"
        " plant:Pipe <= 9 kg/h"
    )
    pack, problems = compile_rule(text, tmp_path, graph=OWNED, client="linz")
    assert pack is not None, problems
    assert [(column.name, column.source) for column in pack.manifest.contract.columns] == [
        ("flow[P1]", "F1"),
        ("flow[P2]", "F2"),
    ]


def test_knowledge_models_hold_no_foreign_numbers(tmp_path: Path) -> None:
    text = """label grade classes A, B
range knowledge k of grade scope client for ?m where { ?o plant:max ?m }
  when cap > ?m allow A otherwise allow any
set s scope client for ?v, ?r where { ?v plant:max ?r } keep parameters in l1_ball(radius = ?r)
"""
    pack, problems = compile_rule(text, tmp_path, graph=OWNED, client="linz")
    assert pack is not None, [(problem.span.line, problem.message) for problem in problems]
    assert params_in(pack) == {5.0, 10.0}
    assert [entry.numbers for kept in pack.manifest.sets for entry in kept.clients] == [(10.0,)]


HANGING = {
    "a sensor": 'plant:x sosa:isHostedBy plant:V2 ; plant:max 77 ; fkg:column "X" .',
    "hosts": "plant:V2 sosa:hosts plant:x . plant:x plant:max 77 .",
    "a limit": "plant:x fkg:limitOf plant:V2 ; plant:max 77 .",
    "has limit": "plant:V2 fkg:hasLimit plant:x . plant:x plant:max 77 .",
    "a part": "plant:x isa95:isPartOf plant:V2 ; plant:max 77 .",
    "a part of a part": (
        "plant:x isa95:isPartOf plant:y ; plant:max 77 . plant:V2 isa95:consistsOf plant:y ."
    ),
    "a part of something that is also part of what is common": (
        "plant:x isa95:isPartOf plant:V2, plant:A ; plant:max 77 ."
    ),
    "a foreign part of an own whole": (
        "plant:V2 isa95:isPartOf plant:V1 . plant:x isa95:isPartOf plant:V2 ; plant:max 77 ."
    ),
    "a more special part": (
        "plant:unitOf rdfs:subPropertyOf isa95:isPartOf . plant:x plant:unitOf plant:V2 ; plant:max"
        " 77 ."
    ),
    "a part by its level": "plant:x isa95:UnitIsPartOfCenter plant:V2 ; plant:max 77 .",
    "a result": (
        "plant:o sosa:hasFeatureOfInterest plant:V2 ; sosa:hasResult plant:x . plant:x plant:max"
        " 77 ."
    ),
    "a blank node": "plant:V2 plant:has [ plant:max 77 ] .",
    "blank nodes in a circle": (
        "plant:V2 plant:has _:a . _:a plant:has _:b ; plant:max 77 . _:b plant:has _:a ."
    ),
    "a quantity": "plant:V2 plant:rated plant:x . plant:x qudt:numericValue 77 ; plant:max 77 .",
    "a node with a column": (
        'plant:V2 plant:temperature plant:x . plant:x fkg:column "X" ; plant:max 77 .'
    ),
    "the same": "plant:x owl:sameAs plant:V2 ; plant:max 77 .",
    "a list": "plant:V2 plant:has ( [ plant:max 77 ] ) .",
    "a node of a client": (
        'plant:x fkg:client plant:Wien ; plant:max 77 . plant:Wien fkg:client "wien" .'
    ),
    "the node of a client": "plant:V4 fkg:client plant:x . plant:x plant:max 77 .",
    "a sensor of what names a foreign one": (
        "plant:q plant:into plant:V2 . plant:x sosa:isHostedBy plant:q ; plant:max 77 ."
    ),
}
PREFIXES = (
    "@prefix isa95: <http://www.w3id.org/hsu-aut/DINEN62264-2#> . @prefix owl:"
    " <http://www.w3.org/2002/07/owl#> .\n"
)
PREFIXES += "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
ALL = "rule r scope client for ?m where { ?o plant:max ?m } require cap <= ?m"


@pytest.mark.parametrize("what", HANGING)
def test_parts_of_a_foreign_entity_are_removed_with_it(what: str, tmp_path: Path) -> None:
    pack, problems = compile_rule(
        ALL, tmp_path, graph=OWNED + PREFIXES + HANGING[what], client="linz"
    )
    assert pack is not None, [problem.message for problem in problems]
    assert params_in(pack) == {5.0, 10.0}


STAYING = {
    "a part of an own entity": "plant:x isa95:isPartOf plant:V1 ; plant:max 77 .",
    "an own part of a foreign whole": (
        'plant:x isa95:isPartOf plant:V2 ; fkg:client "linz" ; plant:max 77 .'
    ),
    "an entity of several clients": 'plant:x fkg:client "linz", "wien" ; plant:max 77 .',
    "what leads from an own vessel to a foreign one": (
        "plant:x plant:from plant:V1 ; plant:into plant:V2 ; plant:max 77 ."
    ),
    "a material that a foreign entity uses": (
        "plant:V2 plant:uses plant:x . plant:x a plant:Steel ; plant:max 77 ."
    ),
    "a shared quantity": (
        "plant:V1 plant:r plant:x . plant:V2 plant:r plant:x . plant:x qudt:value 7; plant:max 77 ."
    ),
    "a whole with foreign and common parts": (
        "plant:x isa95:consistsOf plant:V2, plant:z ; plant:max 77 ."
    ),
    "a blank node that nothing leads to": "[] plant:max 77 .",
    "a class": (
        "plant:x a <http://www.w3.org/2002/07/owl#Class> ; plant:max 77 . plant:V2 a plant:x ."
    ),
}


@pytest.mark.parametrize("what", STAYING)
def test_what_is_own_or_common_stays(what: str, tmp_path: Path) -> None:
    pack, problems = compile_rule(
        ALL, tmp_path, graph=OWNED + PREFIXES + STAYING[what], client="linz"
    )
    assert pack is not None, [problem.message for problem in problems]
    assert params_in(pack) == {5.0, 10.0, 77.0}


def test_nothing_is_concluded_from_what_is_cut(tmp_path: Path) -> None:
    """Statements that are cut from the graph give no conclusions.

    With the foreign vessel in it, the area would be a busy one, and the other owner of its press
    would give linz another name.
    """
    graph = (
        OWNED
        + PREFIXES
        + "plant:busy rdfs:range plant:BusyArea . plant:V2 plant:busy plant:A . plant:A plant:max"
        " 77 .\n"
    )
    graph += 'plant:V1 fkg:client "graz" .'
    text = (
        "rule r scope client for ?v, ?c, ?m where { ?v fkg:client ?c ; plant:max ?m } require cap"
        " <= ?m\n"
    )
    text = "use isa95\nprefix fkg: <https://w3id.org/fedkg/ns#>\n" + text
    text += (
        "rule s scope client for ?m where { ?a a plant:BusyArea ; plant:max ?m } require cap <= ?m"
    )
    pack, problems = compile_rule(text, tmp_path, graph=graph, client="linz")
    assert pack is not None, [problem.message for problem in problems]
    assert params_in(pack) == {10.0}
    assert "graz" not in words_in(pack)
    assert "wien" not in words_in(pack)


@pytest.mark.parametrize("client", ["linz", "https://example.org/plant#V1"])
def test_a_graph_that_says_nothing_of_owners_makes_no_private_pack(
    client: str, tmp_path: Path
) -> None:
    pack, problems = compile_rule(ALL, tmp_path, graph=GRAPH, client=client)
    assert pack is None
    assert [problem.code for problem in problems if problem.severity == "error"] == ["FKG288"]


CLIENTS = ("linz", "wien", "graz")
HEAD = """@prefix plant: <https://example.org/plant#> . @prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> . @prefix unit: <http://qudt.org/vocab/unit/> .
@prefix qudt: <http://qudt.org/schema/qudt/> .
@prefix isa95: <http://www.w3id.org/hsu-aut/DINEN62264-2#> . plant:flow a sosa:ObservableProperty .
plant:area a plant:Area ; plant:max 900001 .
"""
RULES = """prefix plant: <https://example.org/plant#>
prefix fkg: <https://w3id.org/fedkg/ns#>
prefix qudt: <http://qudt.org/schema/qudt/>
signal flow(?p) is plant:flow in kg/h
signal cap
label grade classes A, B
rule values scope client for ?x where { ?o plant:max|fkg:highLimit|qudt:numericValue ?x }
  require cap <= ?x
rule paths scope client for ?m, ?x
  where { ?m a plant:Machine ; (plant:in|^plant:in|plant:feeds|^plant:feeds)*/plant:max ?x }
  require cap <= ?x
rule most scope client for ?x where { { SELECT (MAX(?y) AS ?x) WHERE { ?o plant:max ?y } } }
  require cap <= ?x
rule total scope client require cap <= sum of ?x over ?x where { ?o plant:max ?x }
rule flows scope client for ?a in class plant:Machine
  require sum of flow(?p) over ?p in class plant:Machine <= 9 kg/h
rule each scope client for ?p in class plant:Machine require flow(?p) <= 8 kg/h
range knowledge known of grade scope client for ?x where { ?o plant:max ?x }
  when cap > ?x allow A otherwise allow any
set kept scope client for ?m, ?x where { ?m a plant:Machine ; plant:max ?x }
  keep parameters in l1_ball(radius = ?x)
"""
WAYS = {
    "part": "plant:{n} isa95:isPartOf plant:{on} ; plant:max {x} .",
    "whole": "plant:{on} isa95:consistsOf plant:{n} . plant:{n} plant:max {x} .",
    "limit": "plant:{n} a fkg:Limit ; fkg:limitOf plant:{on} ; fkg:highLimit {x} .",
    "has limit": "plant:{on} fkg:hasLimit plant:{n} . plant:{n} fkg:highLimit {x} .",
    "sensor": "plant:{n} sosa:isHostedBy plant:{on} ; plant:max {x} .",
    "speaker": "plant:{n} plant:into plant:{on} ; plant:max {x} .",
    "blank": "plant:{on} plant:rated [ plant:max {x} ] .",
    "quantity": "plant:{on} plant:rated plant:{n} . plant:{n} qudt:numericValue {x} .",
}


@st.composite
def federations(draw: st.DrawFn) -> dict[str, str]:
    """The statements about each client, and the common ones.

    Every number begins with the client's position: 100002, 200002, ...
    """
    said_of = {"": HEAD}
    for k, client in enumerate(CLIENTS):
        lines, count = [], 0
        machines = draw(st.integers(1, 3))
        for i in range(machines):
            count += 1
            machine = f"{client}M{i}"
            lines.append(
                f'plant:{machine} a plant:Machine ; fkg:client "{client}" ; plant:in plant:area .'
            )
            lines.append(f"plant:{machine} plant:max {(k + 1) * 100000 + 2**count} .")
            lines.append(
                f'plant:{machine}s sosa:isHostedBy plant:{machine} ; fkg:column "{client}F{i}" .'
            )
            lines.append(
                f"plant:{machine}s sosa:observes plant:flow ; qudt:unit unit:KiloGM-PER-HR ."
            )
            hosts = [machine]
            for j, way in enumerate(draw(st.lists(st.sampled_from(sorted(WAYS)), max_size=4))):
                count += 1
                name = f"{machine}n{j}"
                lines.append(
                    WAYS[way].format(
                        n=name, on=draw(st.sampled_from(hosts)), x=(k + 1) * 100000 + 2**count
                    )
                )
                if way in ("part", "whole"):
                    hosts.append(name)
        said_of[client] = "\n".join(lines) + "\n"
    links = draw(
        st.lists(
            st.tuples(
                st.sampled_from(CLIENTS), st.sampled_from(CLIENTS), st.sampled_from(["feeds", "in"])
            ),
            max_size=4,
        )
    )
    for one, other, name in links:
        if one != other:
            said_of[one + "-" + other] = (
                said_of.get(one + "-" + other, "")
                + f"plant:{one}M0 plant:{name} plant:{other}M0 .\n"
            )
    return said_of


def _pack(graph: str, client: str) -> Pack:
    with TemporaryDirectory() as folder:
        place = Path(folder) / "plant.ttl"
        place.write_text(graph, encoding="utf-8")
        compilation = compile_rules(
            text="use isa95\n" + RULES, graphs=[place], client=client, reason=False
        )
    assert compilation.pack is not None, [
        (item.span.line, item.message) for item in compilation.diagnostics
    ]
    return compilation.pack


@pytest.mark.slow
@tries(12)
@given(federations(), st.sampled_from(CLIENTS))
def test_a_private_pack_is_as_if_there_were_no_other_clients(
    federation: dict[str, str], client: str
) -> None:
    """A private pack equals the pack from the common and the client's own statements.

    It contains no number of another client.
    """
    pack = _pack("".join(federation.values()), client)
    alone = _pack(federation[""] + federation[client], client)
    assert words_in(pack) == words_in(alone)
    assert pack.to_bytes() == alone.to_bytes()
    text = "".join(one for name, one in federation.items() if name in CLIENTS and name != client)
    foreign = {float(number) for number in re.findall(r"\b[123]\d{5}\b", text)}
    numbers = params_in(pack) | {
        number
        for kept in pack.manifest.sets
        for entry in kept.clients
        for number in entry.numbers
        if number
    }
    assert 900001.0 in numbers
    assert not foreign & numbers
    assert not any(other in words_in(pack) for other in CLIENTS if other != client)


SECRET = 'plant:Hochofen_Wien plant:wiener_rezept 7 ; fkg:client "wien" .\n'
SLIPS = {
    "an entity": (
        "rule r scope client for ?m where { plant:Hochofen_Wein plant:max ?m } require cap <= ?m"
    ),
    "a property": "rule r scope client for ?m where { ?v plant:wiener_rezpt ?m } require cap <= ?m",
    "a property by its bare name": (
        "signal secret(?v) is wiener_rezpt in kg/h\nrule r scope client require cap <= 3 kg/h"
    ),
    "a class by its bare name": (
        "rule r scope client for ?v in class Hochofen_Wein require cap <= 3 kg/h"
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_no_message_of_a_private_compile_tells_another_client_s_names(
    slip: str, tmp_path: Path
) -> None:
    for client in ("linz", "wien"):
        problems = compile_rule(SLIPS[slip], tmp_path, graph=OWNED + SECRET, client=client)[1]
        words = [f"{problem.message} {problem.help} {problem.related}" for problem in problems]
        assert words
        assert any("did you mean" in text for text in words) == (
            client == "wien" and slip != "a class by its bare name"
        ), words
        if client == "linz":
            assert not any("Hochofen_Wien" in text or "wiener_rezept" in text for text in words), (
                words
            )


def test_a_misspelt_client_is_not_told_who_the_others_are(tmp_path: Path) -> None:
    problems = compile_rule(
        "rule r scope client require cap <= 3 kg/h", tmp_path, graph=OWNED, client="wein"
    )[1]
    assert [problem.code for problem in problems] == ["FKG288"]
    assert not any("wien" in f"{problem.message} {problem.help}" for problem in problems)
