"""What is said of rules of which it is not known how they go together."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedkg.pack import Pack
from fedkg_compiler.driver import compile_rules
from fedkg_compiler.reason import reason
from fedkg_compiler.reason.say import diagnostics_of
from fedkg_compiler.reason.verdict import Verdict
from fedkg_compiler.reason.words import clause

GRAPH = """\
@prefix p: <https://ex.org/p#> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
@prefix sosa: <http://www.w3.org/ns/sosa/> .
p:press a sosa:ObservableProperty .
p:line1 p:has p:P1, p:P2 .
p:line2 p:has p:P3 .
""" + "".join(f'p:s{i} sosa:isHostedBy p:P{i} ; sosa:observes p:press ; fkg:column "p{i}" .\n' for i in (1, 2, 3))
ASKED = {
    "COUNT(?v) < 1": ["at least 1 of 2 of these hold: press[P1] is known; press[P2] is known", "press[P3] is known"],
    "COUNT(?v) > 1": [
        "at most 1 of 2 of these hold: press[P1] is known; press[P2] is known",
        "at most 1 of 1 of these hold: press[P3] is known",
    ],
}


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ("time", "whether `a` and `b` contradict or repeat each other, or can never fail, could not be told in the time"),
        ("size", "whether `a` and `b` contradict each other was looked at for each entity, not for all of them at once"),
        ("places", "7,000 combinations of keys (of machines, products and the like) were not looked at: there are too many"),
    ],
)
def test_undecided_is_said_as_no_fault_of_anybody(detail: str, words: str) -> None:
    pack = compile_rules(text="rule a require x <= 3\nrule b require x <= 4\n", reason=False).pack
    assert pack is not None
    (said,) = diagnostics_of(pack, [Verdict(kind="undecided", rules=("a", "b"), rows=(), places=7000, detail=detail)], {})
    assert (said.code, said.severity) == ("FKG507", "info")
    assert said.message.startswith(words)
    assert said.help.startswith("nothing is wrong")


@pytest.mark.parametrize("having", ASKED)
def test_what_is_asked_of_missing_values_is_said_as_such_and_never_to_hold_always(having: str, tmp_path: Path) -> None:
    query = "PREFIX p: <https://ex.org/p#>\nSELECT ?l WHERE { ?l p:has ?m . OPTIONAL { ?m p:press ?v } } "
    (tmp_path / "q.rq").write_text(f"{query}GROUP BY ?l HAVING({having})\n")
    (tmp_path / "g.ttl").write_text(GRAPH)
    (tmp_path / "r.fkg").write_text('queries "q.rq"\n')
    pack = compile_rules([tmp_path / "r.fkg"], graphs=[tmp_path / "g.ttl"], reason=False).pack
    assert isinstance(pack, Pack)
    assert [clause(pack, bank, row) for bank in pack.banks for row in range(bank.rows)] == ASKED[having]
    never_fails = [(one.places, one.of) for one in reason(pack) if one.kind == "never_fails"]
    assert never_fails == ([(1, 2)] if ">" in having else [])  # line2 has one pump alone
