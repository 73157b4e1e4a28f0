"""The tree-sitter grammar reads rule files as the compiler's parser does, and its queries colour
them as the other grammars of editors do.
"""

from __future__ import annotations

import ctypes
import random
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from docs.blocks import blocks, pages
from golden.cases import cases_under
from hypothesis import given
from lark import Token
from pygments.token import Comment, Keyword, Name, Number, Operator, String
from syntax_trees import statements
from test_syntax_mutations import FILES, PARTS, PIECES, edited
from tries import tries

from fedkg_compiler.editor.pygments_lexer import RuleLexer
from fedkg_compiler.editor.word_help import CLAUSES, OPERATORS, STATEMENTS
from fedkg_compiler.frontends.fkg.syntax.printing import print_statement
from fedkg_compiler.frontends.fkg.syntax.statement_grammar import (
    STATEMENT_WORDS,
    Leaf,
    keywords,
    not_text,
    parse_statement,
    plain_text,
    split,
)
from fedkg_compiler.frontends.fkg.syntax.tree import Statement

if TYPE_CHECKING:
    from tree_sitter import Language, Node

ROOT = Path(__file__).parents[3]
GRAMMAR = ROOT / "editors/tree-sitter"
GENERATOR = "tree-sitter 0.22.6"
"""The version that wrote `parser.c`; others write it differently."""
TOKENS = {
    "NAME": "name",
    "BACK_NAME": "name",
    "NUMBER": "number",
    "BACK": "number",
    "VAR": "variable",
    "BACK_VAR": "variable",
    "UNIT": "unit",
    "STRING": "string",
    "QUOTED": "quoted",
    "PNAME": "prefixed_name",
    "IRI": "iri",
    "DOTTED": "dotted_name",
}
"""The tokens of fkg.lark, other than words and signs, and the nodes of the tree-sitter grammar."""
LOOKED_AHEAD = {"closed", "weak", "follows", "at the start", "at the end"}
"""Words that fkg.lark describes with the text that follows them."""


class Branch(NamedTuple):
    """A named node of either parser: its kind, where it begins and ends, and its children."""

    kind: str
    start: int
    end: int
    children: tuple[Branch, ...] = ()


@pytest.fixture(scope="session")
def language(tmp_path_factory: pytest.TempPathFactory) -> Language:
    tree_sitter = pytest.importorskip("tree_sitter", reason="tree-sitter is not installed")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler `cc`")
    library = tmp_path_factory.mktemp("tree-sitter") / "fkg.so"
    sources = [str(GRAMMAR / "src" / name) for name in ("parser.c", "scanner.c")]
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", f"-I{GRAMMAR / 'src'}"]
    subprocess.run([compiler, *flags, *sources, "-o", str(library)], check=True, timeout=200)
    function = ctypes.CDLL(str(library)).tree_sitter_fkg
    function.restype = ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype = ctypes.py_object
    capsule.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    found: Language = tree_sitter.Language(capsule(function(), b"tree_sitter.Language", None))
    return found


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def root_of(language: Language, text: str) -> Node:
    from tree_sitter import Parser

    return Parser(language).parse(encode(text)).root_node


def tree_by_tree_sitter(language: Language, text: str) -> list[Branch] | None:
    """The statements of a file; None if it has an error."""
    root = root_of(language, text)
    if root.has_error:
        return None
    places, byte = {}, 0
    for place, letter in enumerate(text):
        places[byte] = place
        byte += len(encode(letter))
    places[byte] = len(text)

    def convert(node: Node) -> list[Branch]:
        if not node.is_named or node.type == "comment":
            return []
        children = [branch for child in node.children for branch in convert(child)]
        if node.type in ("group", "nested"):  # the compiler's parser leaves the rest as text
            children = [branch for branch in children if branch.kind == "nested"]
        elif node.type == "dotted_name":  # one token there
            children = []
        place = places[node.start_byte], places[node.end_byte]
        return [Branch(node.type, *place, tuple(children))]

    return [branch for child in root.children for branch in convert(child)]


def tree_by_compiler(text: str) -> list[Branch] | None:
    """The statements of a file; None if one does not parse."""

    def convert(leaf: Leaf, at: int) -> list[Branch]:
        if isinstance(leaf, Token):
            kind = TOKENS.get(leaf.type)
            return [Branch(kind, at + leaf.start_pos, at + leaf.end_pos)] if kind else []
        place = at + leaf.meta.start_pos, at + leaf.meta.end_pos
        kind = "unit_clause" if leaf.data == "unit" else str(leaf.data)
        if kind in ("variable", "quoted", "quoted_class"):
            return [Branch(kind, *place)]
        children = [branch for child in leaf.children for branch in convert(child, at)]
        return [Branch(kind, *place, tuple(children))]

    chunks = split(text, "")
    at = len(text) - sum(len(chunk.text) for chunk in chunks)
    found: list[Branch] = []
    for chunk in chunks:
        tree = parse_statement(chunk.text) if chunk.first_word in STATEMENT_WORDS else None
        if tree is None:
            return None
        found.extend(convert(tree, at))
        at += len(chunk.text)
    return found


def differs(language: Language, text: str) -> bool:
    """Whether the parsers disagree: one rejects the text, or a node differs."""
    text = plain_text(text)
    return tree_by_tree_sitter(language, text) != tree_by_compiler(text)


@cache
def rule_files() -> dict[str, str]:
    """Every rule file and every block of rules in the documentation, with its place."""
    files = {
        str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
        for folder in ("benchmarks", "docs", "examples", "playground", "rules", "tests")
        for path in sorted((ROOT / folder).rglob("*.fkg"))
    }
    for page in (*pages(), *sorted((ROOT / "docs/contributing").glob("*.md"))):
        for block in blocks(page):
            if block.language == "fkg":
                files[f"{page.relative_to(ROOT)}:{block.line}"] = block.text
    return files


def test_rule_files_and_documented_rules_give_the_same_trees(language: Language) -> None:
    files = rule_files()
    assert [place for place, text in files.items() if differs(language, text)] == []
    parsed = [text for text in files.values() if tree_by_compiler(plain_text(text))]
    assert len(parsed) > 100


@pytest.mark.slow
def test_golden_cases_are_rejected_where_the_compiler_rejects_their_syntax(
    language: Language,
) -> None:
    folders = (folder for folder in sorted((ROOT / "tests/golden").iterdir()) if folder.is_dir())
    texts = {
        case.id: plain_text(case.source)
        for folder in folders
        for case in cases_under(folder)
        if not_text(case.source, "") is None
    }
    assert [case for case, text in texts.items() if differs(language, text)] == []
    assert sum(tree_by_compiler(text) is None for text in texts.values()) > 200


@tries(100)
@given(statement=statements)
def test_any_statement_nests_in_the_same_way(language: Language, statement: Statement) -> None:
    text = print_statement(statement) + "\n"
    assert tree_by_tree_sitter(language, text) == tree_by_compiler(text)


@pytest.mark.parametrize("edits", [150, pytest.param(3000, marks=pytest.mark.slow)])
def test_files_with_a_mistake_are_accepted_alike(language: Language, edits: int) -> None:
    source = random.Random(30)
    texts = [edited(source.choice(PARTS), source) for _ in range(edits)]
    texts = [text for text in texts if not_text(plain_text(text), "") is None]
    rejected = sum(tree_by_compiler(plain_text(text)) is None for text in texts)
    assert 0.4 < rejected / len(texts) < 0.9
    # The scanner does not know which words may follow a number at its place: see AFTER_NUMBER.
    assert sum(differs(language, text) for text in texts) <= edits // 1000


def test_arithmetic_binds_as_in_school(language: Language) -> None:
    (rule,) = root_of(language, "rule r require a - b - c * -d ^ 2 / 5 kg >= 0").children
    condition = rule.child_by_field_name("condition")
    assert condition is not None
    reference, two = "(reference (name))", "(signed (number))"
    product = f"(multiply {reference} (negative (raised {reference} {two})))"
    assert str(condition.children[0]) == (
        f"(subtract (subtract {reference} {reference})"
        f" (divide {product} (quantity (number) (unit))))"
    )


def test_names_in_any_script(language: Language) -> None:
    """As Python's `\\w` but for four signs, which Unicode allows in names for old files."""
    other = []
    for code in range(0x80, 0x10000, 7):
        letter = chr(code)
        if letter.isspace() or 0xD800 <= code < 0xE000:
            continue
        wanted = re.fullmatch(r"[^\W\d]", letter), re.fullmatch(r"\w", letter)
        for name, right in zip((letter, f"a{letter}"), wanted, strict=True):
            if root_of(language, f"constant {name} = 1").has_error is (right is not None):
                other.append(letter)
    assert set(other) <= set("\u1885\u1886℘℮")


@pytest.mark.parametrize(
    "bad", ["rule half require p <", "rule half require p < 5 and", "rule", "nothing", "@rule a"]
)
def test_an_error_ends_with_its_statement(language: Language, bad: str) -> None:
    good = "signal p in bar\nrule first require p <= 5 bar\n"
    nodes = root_of(language, f"{good}{bad}\n{good}").children
    assert {node.start_point.row for node in nodes if node.has_error} == {2}
    kinds = [(node.type, node.start_point.row) for node in nodes if node.start_point.row != 2]
    assert kinds == [("signal", 0), ("rule", 1), ("signal", 3), ("rule", 4)]


def test_a_text_indented_as_a_whole_has_its_left_edge_there(language: Language) -> None:
    text = "".join(
        f"    {line}\n" for line in ("rule a", "  require x < 1", "rule b require y < 1")
    )
    assert not differs(language, text)
    assert len(root_of(language, text).children) == 2


def test_a_parse_after_an_edit_is_that_of_the_new_text(language: Language) -> None:
    from tree_sitter import Parser

    def point(text: bytes, at: int) -> tuple[int, int]:
        return text.count(b"\n", 0, at), at - text.rfind(b"\n", 0, at) - 1

    source = random.Random(31)
    parser = Parser(language)
    right = 0
    for _ in range(100):
        old = encode(source.choice(FILES))
        start = source.randrange(len(old))
        end = min(len(old), start + source.choice((0, 0, 1, 3, 20)))
        put = encode(source.choice([*PIECES, "", "\n", "\nrule q require x < 1\n"]))
        new = old[:start] + put + old[end:]
        tree = parser.parse(old)
        tree.edit(
            start, end, start + len(put),
            point(old, start), point(old, end), point(new, start + len(put)),
        )  # fmt: skip
        found, wanted = parser.parse(new, tree).root_node, parser.parse(new).root_node
        assert found.has_error is wanted.has_error
        # Where the text has an error, the two may recover differently.
        assert found.has_error or str(found) == str(wanted)
        right += not found.has_error
    assert right > 20


def test_the_grammar_has_the_words_of_the_compiler(language: Language) -> None:
    text = (GRAMMAR / "queries/highlights.scm").read_text(encoding="utf-8")
    words = {word for word in keywords().values() if word.isalpha()} | LOOKED_AHEAD
    anonymous = {
        language.node_kind_for_id(number)
        for number in range(language.node_kind_count)
        if not language.node_kind_is_named(number) and language.node_kind_is_visible(number)
    }
    assert {word for word in anonymous if word and word[0].isalpha()} == words - {"hard"}
    assert set(re.findall(r'"([a-z][a-z ]*)"', text)) == words - {"hard"}
    assert set(STATEMENTS) <= anonymous


def captures(language: Language, text: str) -> dict[tuple[int, int], str]:
    """The capture of each coloured node, by its place in the encoded text."""
    from tree_sitter import Query, QueryCursor

    query = Query(language, (GRAMMAR / "queries/highlights.scm").read_text(encoding="utf-8"))
    found: dict[tuple[int, int], str] = {}
    for _, nodes in QueryCursor(query).matches(root_of(language, text)):
        for name, several in nodes.items():
            for node in several:
                place = node.start_byte, node.end_byte
                assert found.get(place, name) in (name, "constant.numeric"), (place, name)
                found[place] = name
    return found


def test_the_words_have_the_classes_of_the_other_grammars(language: Language) -> None:
    fixed = {word for word in keywords().values() if word.isalpha()} | LOOKED_AHEAD
    functions = set(OPERATORS) - fixed
    assert "mean" in functions
    wanted = dict.fromkeys((*STATEMENTS, *CLAUSES), "keyword")
    wanted |= {word: "function" if word in functions else "keyword.operator" for word in OPERATORS}
    seen = set()
    uses = [
        "rule r require once historically (x > 1 iff y > 1 xor z > 1)",
        *(f"rule r require {word} of x over last 1 h < {word}(y)" for word in functions),
    ]
    for text in (*FILES, *uses):
        body = encode(text)
        seen |= {(body[slice(*at)].decode(), name) for at, name in captures(language, text).items()}
    assert set(wanted.items()) - seen == set()


def test_tokens_have_the_classes_of_the_pygments_lexer(language: Language) -> None:
    names = {
        Comment.Single: {"comment"},
        String.Double: {"string"},
        Number: {"number"},
        Name.Variable: {"variable.parameter", "variable"},
        Name.Namespace: {"string.special.url"},
        Keyword.Declaration: {"keyword"},
        Keyword: {"keyword", "keyword.operator"},
        Operator.Word: {"keyword.operator", "function"},
    }
    compared = 0
    for text in FILES:
        found, root = captures(language, text), root_of(language, text)
        lexed = {}
        for at, kind, word in RuleLexer().get_tokens_unprocessed(text):
            start = len(encode(text[:at]))
            place = start, start + len(encode(word))
            lexed[place] = kind
            if kind not in names or found.get(place) in names[kind]:
                compared += kind in names
                continue
            # The lexer does not know the place of a word: `10 min`, `weight >= 1`, `1/min`.
            node = root.descendant_for_byte_range(*place)
            assert node is not None
            assert node.type in ("unit", "name", "dotted_name"), (kind, word, node)
        for place, name in found.items():
            if name in ("comment", "number", "string.special.url"):
                assert name in names[lexed[place]], (name, place)
    assert compared > 800


def test_the_queries_fit_the_grammar(language: Language) -> None:
    from tree_sitter import Query

    for path in sorted((GRAMMAR / "queries").glob("*.scm")):
        assert Query(language, path.read_text(encoding="utf-8")).pattern_count > 0


@pytest.mark.slow
def test_the_parser_is_generated_from_the_grammar(tmp_path: Path) -> None:
    program = shutil.which("tree-sitter")
    if program is None:
        pytest.skip("no generator: install tree-sitter-cli")
    version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    if version.stdout.strip() != GENERATOR:
        pytest.skip(f"the generator is {version.stdout.strip()}, not {GENERATOR}")
    shutil.copy(GRAMMAR / "grammar.js", tmp_path)
    subprocess.run([program, "generate", "--no-bindings"], cwd=tmp_path, check=True, timeout=200)
    assert (tmp_path / "src/parser.c").read_bytes() == (GRAMMAR / "src/parser.c").read_bytes()
