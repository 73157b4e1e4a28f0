"""`explain` shows values that satisfy and violate a rule wherever `diff` can.

The interpreter confirms each of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from command import call

from fedkg_compiler.pipeline import compile_rules

SIGNALS = """timeline time column "Time" step 5 min
signal p in bar span 0 .. 10
signal q in bar span 0 .. 10
"""


@pytest.mark.parametrize(
    ("rule", "outside"),
    [
        ("always within 2 h p <= 9 bar", False),
        ("if p > 5 bar then eventually within 2 h q < 3 bar", False),
        ("always [5 h, 40 h] (p <= 9 bar)", False),
        ("exp(p / 1 bar) <= 20", False),
        ("log(p / 1 bar) >= 0.5", False),
        ("p <= 11 bar", True),
    ],
)
def test_examples_are_found(
    rule: str, outside: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "r.fkg"
    path.write_text(f"{SIGNALS}rule r require {rule}\n", encoding="utf-8")
    done = call(capsys, "explain", "r", str(path))
    assert done.code == 0
    assert "no example was found" not in done.out
    assert ("violated  p = 12 bar (outside the declared spans)" in done.out) == outside


def test_examples_of_a_rule_with_an_error_are_left_alone() -> None:
    text = f"{SIGNALS}rule d require p <=\nexample of d fails for p = 7 bar\n"
    assert [one.code for one in compile_rules(text=text).diagnostics] == ["FKG003"]


def test_a_rule_that_reads_no_column_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "g.ttl").write_text(
        "@prefix : <http://ex.org/> . @prefix fkg: <https://w3id.org/fedkg/ns#> .\n"
        ':t fkg:column "t" . :K fkg:keyColumn "k" . :m a :K ; :in :a .\n',
        encoding="utf-8",
    )
    (tmp_path / "q.rq").write_text(
        "PREFIX : <http://ex.org/> SELECT ?a WHERE { { ?m :in ?a OPTIONAL { ?m :t ?t } } UNION"
        " { ?m :by ?a } } GROUP BY ?a HAVING (COUNT(*) > 0)",
        encoding="utf-8",
    )
    done = call(capsys, "explain", "q", str(tmp_path / "q.rq"), str(tmp_path / "g.ttl"))
    assert (done.code, "no example was found" in done.out) == (0, True), done.err
