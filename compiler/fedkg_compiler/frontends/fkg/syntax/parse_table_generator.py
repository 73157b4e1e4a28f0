"""The parser's table from the grammar, by lark: what `parse_table.py` ships with the package, so
that no run has to build it.

    python -m fedkg_compiler.frontends.fkg.syntax.parse_table_generator

writes `fkg.table.json` anew, after a change of the grammar; a test fails until that is done.
"""

from __future__ import annotations

import json
from typing import Any

from lark import Lark
from lark.lexer import PatternRE, TerminalDef
from lark.parsers.lalr_analysis import Reduce

from fedkg_compiler.frontends.fkg.syntax.grammar import FILE, WORD_ENDS, fingerprint, grammar_text

_WORD_PRIORITY = 1
_START = "statement"


def build_parser() -> Lark:
    """Lark's own LALR(1) parser of one statement, with a contextual lexer and places on every
    branch; takes 0.1 to 0.5 s.
    """
    return Lark(
        grammar_text(),
        parser="lalr",
        lexer="contextual",
        start=_START,
        propagate_positions=True,
        edit_terminals=_whole_word,
    )


def make_table() -> dict[str, Any]:
    """The table as JSON holds it (`Any`), in an order that depends on the grammar alone.

    States are numbered as a walk from the start meets them. Terminals are in the order in which
    lark tries them.
    """
    lark: Any = build_parser()
    parsing, lexer = lark.parser.parser._parse_table, lark.parser.lexer
    assert not any(one.scanner.terminals and one.callback for one in lexer.lexers.values()), (
        "a sign is also matched by a pattern"
    )
    rules = sorted(lark.rules, key=str)
    numbers = {rule: number for number, rule in enumerate(rules)}
    start, end = parsing.start_states[_START], parsing.end_states[_START]
    place = {start: 0}
    order = [start]
    for state in order:
        for _, (action, arg) in sorted(parsing.states[state].items()):
            if action is not Reduce and arg not in place:
                place[arg] = len(order)
                order.append(arg)
    return {
        "made_from": fingerprint(),
        "end": place[end],
        "ignored": sorted(lark.ignore_tokens),
        "terminals": [
            [one.name, one.pattern.to_regexp(), one.pattern.type == "str"]
            for one in lexer.root_lexer.terminals
        ],
        "rules": [_rule(rule) for rule in rules],
        "states": [
            {
                name: ~numbers[arg] if action is Reduce else place[arg]
                for name, (action, arg) in sorted(parsing.states[state].items())
            }
            for state in order
        ],
    }


def _rule(rule: Any) -> list[Any]:
    """Return ``[origin, name, size, tree parts, single]`` of a lark rule (`Any`: untyped).

    A part is ~i if its children replace it in the tree.
    """
    assert rule.expansion, f"{rule} can be empty"
    kept = [
        ~i if not part.is_term and part.name.startswith("_") else i
        for i, part in enumerate(rule.expansion)
        if rule.options.keep_all_tokens or not (part.is_term and part.filter_out)
    ]
    origin = str(rule.origin.name)
    return [
        origin,
        str(rule.alias or origin),
        len(rule.expansion),
        kept,
        bool(rule.options.expand1 and not rule.alias),
    ]


def _whole_word(terminal: TerminalDef) -> TerminalDef:
    """Make keywords match whole words (``andy`` is not ``and y``) and take priority over names."""
    word = str(terminal.pattern.value)
    if terminal.pattern.type == "str" and word.isalpha():
        terminal.pattern = PatternRE(word + WORD_ENDS)
        terminal.priority = _WORD_PRIORITY
    return terminal


def table_text() -> str:
    """The table as its file holds it: a line for each rule and state."""
    table = make_table()
    lines = [
        f'"{key}":'
        + (
            "[\n" + ",\n".join(_json(item) for item in value) + "\n]"
            if isinstance(value, list)
            else _json(value)
        )
        for key, value in table.items()
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    FILE.write_text(table_text(), encoding="utf-8")
