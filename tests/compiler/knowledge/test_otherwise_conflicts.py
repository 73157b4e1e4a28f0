"""`otherwise` of a knowledge model over a quantifier: one thing for each sample, or an error that
names two rows.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedkg.constraints.meaning.interpreter import evaluate_bank
from fedkg.knowledge import predictions
from fedkg_compiler.compilation_result import Compilation
from fedkg_compiler.pipeline import compile_rules

HEAD = (
    'signal load in bar span 0 .. 20 column "load"\noutput speed in bar span 0 .. 20\nprefix plant:'
    " <http://example.org/>\n"
)
OVER = (
    "predict knowledge k of speed for ?m, ?hi, ?best where { ?m a plant:M ; plant:hi "
    "?hi ; plant:best ?best }\n"
)
SAYS = "  when load > ?hi predict ?hi\n  otherwise predict ?best\n"
GRAPH = """
@prefix plant: <http://example.org/> .
@prefix fkg: <https://w3id.org/fedkg/ns#> .
plant:m1 a plant:M ; plant:best 3.0 ; plant:hi 10.0 .
plant:m2 a plant:M ; plant:best {second} ; plant:hi 12.0 .
{more}
"""
KEYED = 'plant:M fkg:keyColumn "machine" .'


def compiled(
    folder: Path, *, second: float = 4.0, more: str = "", text: str = OVER + SAYS
) -> Compilation:
    (folder / "plant.ttl").write_text(GRAPH.format(second=second, more=more))
    (folder / "rules.fkg").write_text(HEAD + text)
    return compile_rules([folder / "rules.fkg"], graphs=[folder / "plant.ttl"], reason=False)


def errors(found: Compilation) -> list[tuple[str, int, str]]:
    return [
        (item.code, item.span.line, item.message)
        for item in found.diagnostics
        if item.severity == "error"
    ]


def test_rows_that_differ_for_the_same_samples_are_an_error_that_names_them(tmp_path: Path) -> None:
    ((code, line, message),) = errors(compiled(tmp_path))
    assert (code, line) == ("FKG374", 6)
    assert message.endswith("it is one for m1 and another for m2")


def test_rows_that_agree_are_one_value(tmp_path: Path) -> None:
    assert errors(compiled(tmp_path, second=3.0)) == []


@pytest.mark.parametrize(
    "said", ["allow between 0 bar and ?best", "allow between ?best and 20 bar"]
)
def test_ranges_too(tmp_path: Path, said: str) -> None:
    text = OVER.replace("predict", "range") + f"  when load > ?hi allow any\n  otherwise {said}\n"
    assert [code for code, _, _ in errors(compiled(tmp_path, text=text))] == ["FKG374"]


def test_rows_told_apart_by_a_key_column_each_have_their_own(tmp_path: Path) -> None:
    found = compiled(tmp_path, more=KEYED)
    assert errors(found) == []
    pack = found.pack
    assert pack is not None
    columns = {column.name: i for i, column in enumerate(pack.manifest.contract.columns)}
    values = np.full((1, 4, len(columns)), np.nan)
    values[0, :, columns["load"]] = [1.0, 1.0, 13.0, 11.0]
    machines = pack.manifest.contract.columns[columns["machine"]].vocabulary
    values[0, :, columns["machine"]] = [machines.index(name) for name in ("m1", "m2", "m2", "m1")]
    (model,) = pack.manifest.knowledge
    assert model.otherwise is not None
    held = evaluate_bank(pack.conditions[model.otherwise.bank], values).satisfied
    assert held.sum(axis=1).tolist() == [1, 1, 1, 1]
    assert predictions(pack, model, values).tolist() == [3.0, 4.0, 12.0, 10.0]
