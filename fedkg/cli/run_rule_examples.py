"""`fedkg test`: run the examples in rule files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, print_line, print_note
from fedkg.cli.site_options import SiteName, SitesPath, read_sites, require_sites

if TYPE_CHECKING:
    from fedkg.evaluation.example_runner import ExampleResult


def run_examples(
    rules: Annotated[
        list[Path],
        typer.Argument(
            metavar="RULES...", help="Rule files (.fkg), and the graphs (.ttl ...) they refer to."
        ),
    ],
    sites: SitesPath = None,
    site: SiteName = "",
    as_json: AsJson = False,
) -> None:
    """Run the examples in rule files.

    Examples are `example of RULE holds for ...` and `example of RULE fails for ...`. A rule holds
    on an example if it is satisfied at every step, and fails if a step violates it. Windows end
    with the trace. A rule over many entities runs on the first of them, by IRI, that has all
    columns and numbers; `and limit = 8 bar` in the example replaces the number `?limit` of its
    quantifier. Exit code 0: every example comes out as expected; 1: one does not, or the rules
    have an error.

    With --sites fedkg also tests that each rule about data can be decided with the tables of the
    sites: 1 if a site lacks a column of a rule, or a rule is unknown in all its rows.

    \b
    Examples:
      fedkg test rules.fkg
      fedkg test rules.fkg plant.ttl --json
      fedkg test rules.fkg --sites sites.yaml
    """
    from fedkg import authoring

    require_sites(sites, site)
    results, diagnostics = authoring.run_examples(rules)
    errors = [d for d in diagnostics if d.severity == "error"]
    decided = _decide_at_sites(rules, sites, site) if sites is not None and not errors else []
    if as_json:
        print_json(
            {
                "examples": [one.to_json() for one in results],
                **({"sites": [asdict(one) for one in decided]} if sites is not None else {}),
                **authoring.diagnostics_json(diagnostics),
            }
        )
    elif doubts := [d for d in diagnostics if d.severity != "info"]:
        print_note(authoring.render(doubts))
    failed = [one for one in results if not one.passed]
    undecided = [one for one in decided if not one.passed]
    if not as_json and not errors:
        for one in results:
            print_line(_result_line(one))
        for verdict in decided:
            print_line(verdict.line())
        if not results and sites is None:
            print_note(
                "the rules contain no examples; add one, such as: example of recovers "
                "fails for pressure = 7 9 9 9 bar"
            )
        elif results:
            print_line(
                f"{count_noun(len(results), 'example')}, {len(failed)} not as expected"
                if failed
                else f"{count_noun(len(results), 'example')}, all as expected"
            )
    if errors or failed or undecided:
        raise typer.Exit(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteVerdicts:
    """Whether the table of a site decides a rule.

    Attributes:
        decided: number of evaluations with a verdict.
        evaluations: number of all evaluations.
        problem: why the rule has no verdict; "" if it has one, or if no row is about it.
    """

    rule: str
    site: str
    passed: bool
    decided: int
    evaluations: int
    problem: str = ""

    def line(self) -> str:
        """``ok    limit  north: decided in 58 of 60 evaluations``."""
        word = "ok   " if self.passed else "WRONG"
        found = self.problem or (
            f"decided in {self.decided:,} of {count_noun(self.evaluations, 'evaluation')}"
            if self.evaluations
            else "no row is about it"
        )
        return f"{word} {self.rule}  {self.site}: {found}"


def _decide_at_sites(rules: Sequence[Path], sites: Path | None, site: str) -> list[SiteVerdicts]:
    """Whether each rule about data has a verdict at each site. Raises UsageError, TableError."""
    from fedkg import authoring
    from fedkg.evaluation import evaluate

    pack, _ = authoring.load_or_compile(rules)
    found: list[SiteVerdicts] = []
    for read in read_sites(sites, site, pack.manifest.contract):
        for one in evaluate(pack, read.table, missing="skip").rules:
            if one.needs_model:
                continue
            verdicts = one.satisfied + one.violated
            problem = ""
            if one.missing:
                problem = f"the table has no column {', '.join(f'`{x}`' for x in one.missing)}"
            elif one.evaluations and not verdicts:
                problem = f"unknown in all {count_noun(one.evaluations, 'evaluation')}"
            found.append(
                SiteVerdicts(
                    rule=one.rule,
                    site=read.site,
                    passed=not problem,
                    decided=verdicts,
                    evaluations=one.evaluations,
                    problem=problem,
                )
            )
    return found


def _result_line(one: ExampleResult) -> str:
    place = f"{one.file}:{one.line}"
    if one.passed:
        return f"ok    {one.rule} {one.got}  {place}"
    if one.got == "unknown":
        why = f": {one.reason}" if one.reason else ""
        return (
            f"WRONG {one.rule}  {place}: expected that it {one.expected}, but step "
            f"{one.step} is unknown{why}"
        )
    margin = (
        ""
        if not math.isfinite(one.robustness)
        else f" (by {abs(one.robustness):g}{' ' + one.unit if one.unit else ''})"
    )
    least = f", least at step {one.step}{margin}" if margin else ""
    said = (
        f"step {one.step} violates it{margin}"
        if one.got == "fails"
        else f"it holds at every step{least}"
    )
    return f"WRONG {one.rule}  {place}: expected that it {one.expected}, but {said}"
