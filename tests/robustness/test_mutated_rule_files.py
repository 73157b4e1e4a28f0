"""Rule files with random mistakes in the whole compiler: no exception, and only usable packs."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from golden.cases import cases_under

from fedkg.errors import TableError
from fedkg.evaluation import evaluate
from fedkg.pack import pack_bytes, read_pack
from fedkg.tables import read_bytes
from fedkg_compiler.compilation_result import Compilation
from fedkg_compiler.diagnostics import CODES, render, to_json
from fedkg_compiler.pipeline import compile_rules

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "golden"
MILLING = (ROOT / "examples" / "milling" / "rules.fkg").read_text(encoding="utf-8")
CASES = [
    case
    for folder in ("binding", "banks", "bad_rules")
    for case in cases_under(GOLDEN / folder)
    if len(case.source) < 2000
]
SMALL = [case.source for case in CASES for _ in range(1 if "error[" in case.said else 40)]
TABLE = read_bytes(
    b"machine,Type,x,Torque [Nm],P\nM01,L,1,2,3\nM-02,H,,5,nan\nM03,L,0,0,-1\n", "table.csv"
)
PIECES = [
    *" \n\t()[]{}<>\"'`?#,.:;=+-*/^%&|!@$~\\_0aé°“→\u200b",
    *(
        "and",
        "or",
        "if ",
        "not ",
        "always ",
        "require ",
        "rule ",
        "hard ",
        "weight 0 ",
        "kind x ",
        "use ",
        "prefix ",
        "signal ",
        "label ",
    ),
    *(
        "0,5",
        "1e400",
        "nan",
        "-1",
        "1e308",
        " / 0",
        " ^ 0.5",
        " ^ -3",
        " ^ 1e9",
        " bar",
        " degC",
        " kPa",
        "N m",
        "->",
        "<=",
        " != ",
    ),
    *(
        " == ",
        " +/- 0 ",
        "max()",
        "min(",
        "sqrt(",
        "log(",
        "value(",
        "torque(?m)",
        "?x",
        "failure",
        " is ",
        " is not ",
        ' column "x"',
    ),
    *(
        " span 5 .. 1",
        " for ?x in class plant:Machine ",
        " where { ?x a ?y } ",
        ' in table "limits.csv" ',
        " never falls ",
        " as ",
        " per x",
        *(
            "[0, 1e9] ",
            "[5, 2] ",
            "[0 s, 1e308 min] ",
            " scope x ",
            " scope client ",
            " past ",
            "next (",
            " since closed ",
            "at least 1e400 of (",
        ),
        *(
            "sum of ",
            "any of (",
            " over ?m in class plant:Mill ",
            " over ?m where { ?m ?p ?x } ",
            " only after ",
            " in A, A ",
            " follows r(x)",
        ),
    ),
]


def edited(text: str, source: random.Random) -> str:
    """The text with one edit.

    Characters or words dropped, doubled, swapped, replaced or inserted.
    """
    if not text:
        return source.choice(PIECES)
    at = source.randrange(len(text))
    end = min(len(text), at + source.choice([1, 1, 2, 5, 12, 40]))
    match source.randrange(6):
        case 0:
            return text[:at] + text[end:]
        case 1:
            return text[:end] + text[at:end] + text[end:]
        case 2:
            return text[:at] + source.choice(PIECES) + text[end:]
        case 3:
            return text[:at] + source.choice(PIECES) + text[at:]
        case kind:
            words = text.split(" ")
            i, j = source.randrange(len(words)), source.randrange(len(words))
            words[i], words[j] = words[j], words[j] if kind == 4 else words[i]
            return " ".join(words)


def usable(compilation: Compilation) -> None:
    """Diagnostics render, and a pack can be written, read, and evaluated on a table."""
    assert (compilation.pack is None) == any(
        problem.severity == "error" for problem in compilation.diagnostics
    )
    assert len({(problem.code, problem.span) for problem in compilation.diagnostics}) == len(
        compilation.diagnostics
    )
    for problem in compilation.diagnostics:
        assert problem.code in CODES
        assert problem.message
        assert (problem.span.line, problem.span.column) <= (
            problem.span.end_line,
            problem.span.end_column,
        )
        assert render(problem, None)
        assert to_json(problem)["code"] == problem.code
    if compilation.pack is None:
        return
    body = pack_bytes(compilation.pack)
    pack = read_pack(body)
    assert pack_bytes(pack) == body
    try:
        evaluate(pack, TABLE)
    except TableError:
        with suppress(TableError):  # a rule may need numbers from a column of texts
            evaluate(pack, TABLE, missing="skip").to_json()


def compiled(texts: Sequence[str], edits: Sequence[int], rounds: int, seed: int) -> int:
    """Compile mutations; return the number of packs."""
    source, packs = random.Random(seed), 0
    for _ in range(rounds):
        text = source.choice(texts)
        for _ in range(source.choice(edits)):
            text = edited(text, source)
        Path("case.fkg").write_text(text, encoding="utf-8", errors="surrogatepass", newline="")
        graphs = [Path("plant.ttl")] if "plant:" in text and "use " not in text else []
        try:
            compilation = compile_rules([Path("case.fkg")], graphs=graphs)
            usable(compilation)
        except Exception as error:
            raise AssertionError(f"this file makes the compiler fail:\n{text}") from error
        packs += compilation.pack is not None
    return packs


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (GOLDEN / "plant").iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)


@pytest.mark.slow
def test_small_files_with_a_mistake_or_several() -> None:
    assert compiled(SMALL, (1, 1, 2, 4), 350, seed=31) > 10


@pytest.mark.slow
def test_the_milling_rules_with_a_mistake_or_several(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "milling" / "plant.ttl", tmp_path)
    assert compiled([MILLING], (1, 1, 3), 5, seed=32) >= 1


@pytest.mark.slow
def test_many_more_of_both(tmp_path: Path) -> None:
    assert compiled(SMALL, (1, 2, 3, 8), 1500, seed=33) > 30
    shutil.copy(ROOT / "examples" / "milling" / "plant.ttl", tmp_path)
    assert compiled([MILLING], (1, 2, 5), 25, seed=34) > 1
