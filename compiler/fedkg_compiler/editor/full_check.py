"""The whole compilation of an open file, for a process that ends with it.

The analysis of rules needs a solver, which takes time and memory that the language server does not
have. So the server sends a `Request` as JSON to another process, `fedkg lsp --check`, and gets a
`Result` back.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from fedkg.pack import Pack
from fedkg.pack.rule_example_trace import RuleExample
from fedkg_compiler.analysis.requirement_text import sentence
from fedkg_compiler.compilation_result import Compilation
from fedkg_compiler.diagnostics.record import Diagnostic, diagnostic_from
from fedkg_compiler.input_files import instead
from fedkg_compiler.pipeline import compile_rules

if TYPE_CHECKING:
    from fedkg_compiler.row_source_triples import Fact

SHOWN_ENTITIES = 5
"""Entities of a rule that are named; of more, only their number."""


class Verdict(Protocol):
    """What an example comes to, as `fedkg.evaluation.example_runner.ExampleResult` says it."""

    @property
    def line(self) -> int:
        """Line of the example, from 1."""

    @property
    def expected(self) -> str:
        """The verdict that the author expects."""

    @property
    def got(self) -> str:
        """The verdict of the rule."""

    @property
    def passed(self) -> bool:
        """Whether they agree."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to check.

    Attributes:
        path: the place of the file. text: what to read in its place. graphs: further graphs.
        origin: a rule to find the triples of; "" for a check.
    """

    path: str
    text: str
    graphs: tuple[str, ...] = ()
    origin: str = ""

    @classmethod
    def from_json(cls, text: str) -> Request:
        """The request that `to_json` wrote."""
        found: dict[str, Any] = json.loads(text)
        return cls(**found | {"graphs": tuple(found["graphs"])})

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFacts:
    """What a compilation knows about one rule.

    Attributes:
        meaning: what the first bound row requires, as a sentence.
        rows: the number of bound rows.
        entities: the first entities. others: how many more there are.
        unit: of the robustness of the first row; "" for none.
        about: whether it is about the data or about the predictions of the model.
    """

    meaning: str
    rows: int
    entities: tuple[str, ...]
    others: int
    unit: str
    about: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExampleVerdict:
    """The result of one example.

    Attributes:
        line: of the example, from 1. passed: it is as its author expects. text: the result.
    """

    line: int
    passed: bool
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a check found.

    Attributes:
        diagnostics: all of them. rules: facts by the name of the rule; none with errors.
        examples: results of the examples in the file. facts: triples behind the rule `origin`, as
            lines of text.
    """

    diagnostics: tuple[Diagnostic, ...] = ()
    rules: dict[str, RuleFacts]
    examples: tuple[ExampleVerdict, ...] = ()
    facts: tuple[str, ...] = ()

    def to_json(self) -> str:
        """One JSON object."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Result:
        """The result that `to_json` wrote."""
        found: dict[str, Any] = json.loads(text)
        return cls(
            diagnostics=tuple(diagnostic_from(one) for one in found["diagnostics"]),
            rules={
                name: RuleFacts(**one | {"entities": tuple(one["entities"])})
                for name, one in found["rules"].items()
            },
            examples=tuple(ExampleVerdict(**one) for one in found["examples"]),
            facts=tuple(found["facts"]),
        )


def check_fully(
    request: Request, run_example: Callable[[RuleExample], Verdict], *, reason: bool = True
) -> Result:
    """Compile a file with the analysis of its rules, and run its examples.

    Args:
        request: what to check.
        run_example: runs one example.
        reason: whether to search for contradictions and other findings about several rules.

    Raises:
        FedkgError: the input is above a limit.
    """
    path = Path(request.path)
    with instead({path: request.text.encode("utf-8", "surrogatepass")}):
        if request.origin:
            return Result(rules={}, facts=tuple(_origin(path, request)))
        compiled = compile_rules([path], graphs=request.graphs, reason=reason)
        return Result(
            diagnostics=compiled.diagnostics,
            rules={} if compiled.pack is None else _rule_facts(compiled.pack),
            examples=_examples(compiled, path, run_example),
        )


def _rule_facts(pack: Pack) -> dict[str, RuleFacts]:
    found: dict[str, RuleFacts] = {}
    for number, record in enumerate(pack.manifest.rules):
        places = [
            (bank, int(row)) for bank in pack.banks for row in np.flatnonzero(bank.rule == number)
        ]
        if not places:
            continue
        names = (pack.manifest.entities[bank.entity[row]] for bank, row in places)
        entities = list(dict.fromkeys(name for name in names if name))
        bank, row = places[0]
        found[record.name] = RuleFacts(
            meaning=sentence(pack, bank, row),
            rows=len(places),
            entities=tuple(entities[:SHOWN_ENTITIES]),
            others=max(0, len(entities) - SHOWN_ENTITIES),
            unit=pack.manifest.units[bank.unit[row]],
            about="what the model predicts" if record.output else "the data",
        )
    return found


def _examples(
    compiled: Compilation, path: Path, run_example: Callable[[RuleExample], Verdict]
) -> tuple[ExampleVerdict, ...]:
    if any(one.severity == "error" for one in compiled.diagnostics):
        return ()
    results = (run_example(one) for one in compiled.examples if one.file == str(path))
    return tuple(
        ExampleVerdict(line=one.line, passed=one.passed, text=_verdict_text(one.expected, one.got))
        for one in results
    )


def _verdict_text(expected: str, got: str) -> str:
    return f"{expected}, as expected" if expected == got else f"{got}, expected {expected}"


def _origin(path: Path, request: Request) -> list[str]:
    """The triples behind the first entity of a rule, those that follow from others with them."""
    compiled = compile_rules([path], graphs=request.graphs, reason=False)
    facts = {} if compiled.pack is None else _rule_facts(compiled.pack)
    entities = facts[request.origin].entities if request.origin in facts else ()
    if not entities:
        return []
    from fedkg_compiler.row_source_triples import origins  # needs the library for graphs

    found = origins([path, *map(Path, request.graphs)], [request.origin], entities[0])
    return [line for origin in found for fact in origin.facts for line in _lines(fact, 0)]


def _lines(fact: Fact, depth: int) -> list[str]:
    place = fact.place or (f"by {fact.rule}" if fact.rule else "")
    own = f"{'  ' * depth}{fact.triple}" + (f"  ({place})" if place else "")
    return [own, *(line for premise in fact.premises for line in _lines(premise, depth + 1))]
