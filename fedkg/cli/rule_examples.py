"""`fedkg test`: run the examples in rule files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkg.cli.console import AsJson, count, print_json, print_line, print_note

if TYPE_CHECKING:
    from fedkg.evaluation.example_runner import ExampleResult


def run_examples(
    rules: Annotated[
        list[Path],
        typer.Argument(
            metavar="RULES...", help="Rule files (.fkg), and the graphs (.ttl ...) they refer to."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Run the examples in rule files.

    Examples are `example of RULE holds for ...` and `example of RULE fails for ...`. A rule holds
    on an example if it is satisfied at every step, and fails if a step violates it. Windows end
    with the trace. A rule over many entities runs on one of them; the example can set numbers of
    its quantifier. Exit code 0: every example comes out as expected; 1: one does not, or the rules
    have an error.

    \b
    Examples:
      fedkg test rules.fkg
      fedkg test rules.fkg plant.ttl --json
    """
    from fedkg import authoring

    results, diagnostics = authoring.run_examples(rules)
    errors = [d for d in diagnostics if d.severity == "error"]
    if as_json:
        print_json(
            {
                "examples": [one.to_json() for one in results],
                **authoring.diagnostics_json(diagnostics),
            }
        )
    elif doubts := [d for d in diagnostics if d.severity != "info"]:
        print_note(authoring.render(doubts))
    failed = [one for one in results if not one.passed]
    if not as_json and not errors:
        for one in results:
            print_line(_result_line(one))
        if not results:
            print_note(
                "the rules contain no examples; add one: example of recovers "
                "fails for pressure = 7 9 9 9 bar"
            )
        else:
            print_line(
                f"{count(len(results), 'example')}, {len(failed)} not as expected"
                if failed
                else f"{count(len(results), 'example')}, all as expected"
            )
    if errors or failed:
        raise typer.Exit(1)


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
