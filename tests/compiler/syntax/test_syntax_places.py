"""Every node has the right position: its span cuts its own text out of the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tries import tries

from fedkg_compiler.diagnostics import Span
from fedkg_compiler.frontends.fkg.syntax import parse, tree
from fedkg_compiler.frontends.fkg.syntax.tree import Tree

FILES = sorted((Path(__file__).parents[2] / "golden" / "language").glob("*.fkg"))


def cut(text: str, span: Span) -> str:
    """The stretch of a text that a span names."""
    starts = [0, *(found.end() for found in re.finditer("\n", text))]
    return text[
        starts[span.line - 1] + span.column - 1 : starts[span.end_line - 1] + span.end_column - 1
    ]


def nodes(value: object, above: Tree | None = None) -> Iterator[tuple[Tree, Tree | None]]:
    """All nodes of a tree, each with its parent."""
    if isinstance(value, Tree):
        yield value, above
        for name in value.__dataclass_fields__:
            yield from nodes(getattr(value, name), value)
    elif isinstance(value, tuple):
        for item in value:
            yield from nodes(item, above)


def inside(span: Span, outer: Span) -> bool:
    return (outer.line, outer.column) <= (span.line, span.column) and (
        span.end_line,
        span.end_column,
    ) <= (outer.end_line, outer.end_column)


def without_marks(text: str) -> str:
    return text[1:-1] if text[:1] in '`"<' else text.removeprefix("?")


def check(text: str, file: tree.RuleFile) -> int:
    """Compare every node of a file with the text; return their number."""
    count = 0
    for node, above in nodes(file.statements):
        count += 1
        written = cut(text, node.span)
        assert written
        assert written == written.strip() or isinstance(node, (tree.Pattern, tree.Word))
        assert above is None or inside(node.span, above.span) or isinstance(node, tree.Lost)
        match node:
            case tree.Pattern():
                assert written == node.text
            case tree.Word():
                if (
                    "\\" not in written
                    and written not in ("≤", "≥", "≠")
                    and (node.text or written != "unknown")
                ):
                    assert without_marks(written) == node.text or written == node.text
            case tree.TermName():
                assert without_marks(written) == node.text
            case tree.Reference():
                assert without_marks(written) == node.name
                assert (written[0] == "`") == node.quoted
            case tree.Variable():
                assert written == f"?{node.name}"
            case tree.Quantity():
                unit = node.unit.text if node.unit else ""
                assert float(written.removesuffix(unit)) == node.value
            case tree.Apply():
                assert written.startswith(node.name.text)
                assert written.endswith(")")
            case tree.Temporal():
                assert written.startswith("weak" if node.weak else node.mode)
            case tree.IfThen():
                assert written.startswith("if")
            case tree.Negation():
                assert written.startswith("not")
            case tree.Rule():
                assert written == node.text
            case _:
                pass
    return count


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("change", ["as it is", "line ends", "tabs", "indented"])
def test_the_files(path: Path, change: str) -> None:
    text = path.read_text(encoding="utf-8")
    if change == "line ends":
        text = text.replace("\n", "\r\n")
    elif change == "tabs":
        text = text.replace("  ", "\t")
    elif change == "indented":
        text = "".join(
            f"    {line}" if line.strip() else line for line in text.splitlines(keepends=True)
        )
    file, problems = parse(text, path.name)
    assert problems == ()
    assert check(text, file) > 50


NAMES = st.sampled_from(
    [
        "x",
        "temperatur_außen",
        "温度",
        "weight",
        "Ω",
        "`TIC-101.PV`",
        "`a b [°C]`",
        "?low",
        "f(?z)",
        "max(x, 1 bar)",
    ]
)
NUMBERS = st.sampled_from(
    ["0", "1.5", "2e3", "5 bar", "5bar", "3 1/min", "20 °C", "1.5e-3 kg/(m2.s)"]
)
SPACE = st.sampled_from([" ", "  ", "\t", "\n  ", "\u00a0", ' # note } ) "\n  ', "\r\n\t"])


@st.composite
def values(draw: st.DrawFn, depth: int = 2) -> list[str]:
    if depth == 0 or draw(st.booleans()):
        return [draw(st.one_of(NAMES, NUMBERS))]
    match draw(st.sampled_from(["two", "minus", "past", "group", "power"])):
        case "two":
            return [
                *draw(values(depth - 1)),
                draw(st.sampled_from(["+", "-", "*", "/"])),
                *draw(values(depth - 1)),
            ]
        case "minus":
            return ["-", *draw(values(0))]
        case "past":
            return ["past", draw(NAMES)]
        case "group":
            return ["(", *draw(values(depth - 1)), ")"]
        case _:
            return [draw(NAMES), "^", draw(st.sampled_from(["2", "-1"]))]


@st.composite
def conditions(draw: st.DrawFn, depth: int = 2) -> list[str]:
    if depth == 0:
        shape = draw(st.sampled_from(["compare", "class", "monotone", "tolerance"]))
    else:
        shape = draw(
            st.sampled_from(["compare", "and", "or", "not", "if", "prefix", "until", "after"])
        )
    match shape:
        case "compare":
            return [*draw(values()), draw(st.sampled_from(["<=", "≥", "<", "=="])), *draw(values())]
        case "tolerance":
            return [
                *draw(values(0)),
                "==",
                *draw(values(0)),
                draw(st.sampled_from(["±", "+/-", "+-"])),
                *draw(values(0)),
            ]
        case "class":
            return [
                *draw(values(0)),
                "is",
                *draw(st.sampled_from([["A"], ["not", '"B 1"'], ["?p"]])),
            ]
        case "monotone":
            return [*draw(values(0)), "never", "falls", "as", "wear", "rises"]
        case "not":
            return ["not", "(", *draw(conditions(depth - 1)), ")"]
        case "if":
            return [
                "if",
                "(",
                *draw(conditions(depth - 1)),
                ")",
                "then",
                *draw(conditions(depth - 1)),
            ]
        case "prefix":
            return ["always", "[", "0", ",", "2 h", "]", *draw(conditions(depth - 1))]
        case "until":
            return [
                "(",
                *draw(conditions(depth - 1)),
                ")",
                "until",
                "within",
                "2 min",
                "(",
                *draw(conditions(depth - 1)),
                ")",
            ]
        case "after":
            return [
                "(",
                *draw(conditions(depth - 1)),
                ")",
                "only",
                "after",
                "(",
                *draw(conditions(depth - 1)),
                ")",
                "within",
                "2 min",
            ]
        case word:
            return [
                "(",
                *draw(conditions(depth - 1)),
                ")",
                word,
                "(",
                *draw(conditions(depth - 1)),
                ")",
            ]


@tries(75)
@given(st.data())
def test_rules_of_any_shape_and_layout(data: st.DataObject) -> None:
    parts = ["rule", "r", "require", *data.draw(conditions())]
    text = parts[0] + "".join(data.draw(SPACE) + part for part in parts[1:]) + "\n"
    file, problems = parse(text, "a.fkg")
    assert problems == ()
    check(text, file)
