"""`fedkg suggest`: propose rules from the findings of runs, for review."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, print_line
from fedkg.cli.learned_graph import read_findings
from fedkg.cli.output_files import check_output_path, write_atomically
from fedkg.cli.review_suggestions import ReviewOptions, review
from fedkg.cli.site_options import SiteName, SitesPath, load_selected, require_sites
from fedkg.errors import UsageError

if TYPE_CHECKING:
    from fedkg.learned_knowledge_records import LearnedKnowledge


def suggest(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN | GRAPH ...",
            help="Folders of finished runs, or graphs from `fedkg ontology learned`.",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="RULES",
            help="The rule file to write; default: print to stdout.",
        ),
    ] = None,
    client: Annotated[
        str,
        typer.Option(
            "--client", metavar="NAME", help="Rules for this client only, with its numbers."
        ),
    ] = "",
    confidence: Annotated[
        float,
        typer.Option(
            "--confidence",
            min=0.0,
            max=1.0,
            help="Omit properties that fewer new series would satisfy.",
        ),
    ] = 0.0,
    level: Annotated[
        float,
        typer.Option(
            "--level",
            min=0.0,
            max=1.0,
            help="Omit causal edges with a larger p-value, corrected for their number.",
        ),
    ] = 0.05,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite an existing rule file.")
    ] = False,
    sites: SitesPath = None,
    site: SiteName = "",
    ask: Annotated[
        bool, typer.Option("--review", help="Ask for a decision about each suggestion.")
    ] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option("--accept", metavar="NAME", help="Accept a suggestion; can be repeated."),
    ] = None,
    edit: Annotated[
        list[str] | None,
        typer.Option(
            "--edit",
            metavar="NAME=FILE",
            help="Accept the statement in a file instead of a suggestion; can be repeated.",
        ),
    ] = None,
    reject: Annotated[
        list[str] | None,
        typer.Option("--reject", metavar="NAME", help="Reject a suggestion; can be repeated."),
    ] = None,
    reviewer: Annotated[str, typer.Option("--reviewer", metavar="NAME", help="Who decides.")] = "",
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why the suggestions are decided so.")
    ] = "",
    accepted: Annotated[
        bool, typer.Option("--accepted", help="Write the accepted suggestions with their evidence.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Propose rules from the findings of runs, and record what people decide about them.

    A proposal has no effect until you add it to your rules. Decisions belong to one run and go to
    `reviews.jsonl` in its folder.

    For a property that was mined at several clients the proposal has the loosest of their numbers;
    with --client, that client's number. With --sites only clients that are sites of the sites
    file count, and with --site only this one.

    \b
    Examples:
      fedkg suggest runs/traffic-001
      fedkg suggest runs/traffic-001 --sites sites.yaml --site north
      fedkg suggest learned.trig --client "station 7" -o candidates.fkg
      fedkg suggest runs/traffic-001 --review --accepted -o accepted.fkg
      fedkg suggest runs/traffic-001 --accept night_everywhere --reviewer "Ana" --reason "as seen"
    """
    from fedkg import ontologies

    if output is not None:
        check_output_path(output, "candidates.fkg", inputs=sources)
        if output.exists() and not force:
            raise UsageError(
                f"{output} already exists",
                help="choose another name, or add --force to overwrite it",
            )
    options = ReviewOptions(
        ask=ask,
        accept=accept or (),
        reject=reject or (),
        edit=edit or (),
        reviewer=reviewer,
        reason=reason,
    )
    if (options or accepted) and not (len(sources) == 1 and sources[0].is_dir()):
        raise UsageError(
            "--review, --accept, --reject, --edit and --accepted apply to one run",
            expected="the folder of one run and nothing else",
            received=", ".join(map(str, sources)),
            help="fedkg suggest RUN --review",
        )
    if ask and as_json:
        raise UsageError(
            "--review and --json exclude each other",
            help="leave out --json, or decide without questions: --accept NAME --json",
        )
    require_sites(sites, site)
    if client and sites is not None:
        raise UsageError(
            "--client and --sites exclude each other",
            help=f"replace --client: --sites {sites} --site {client}",
        )
    names = load_selected(sites, site)[1] if sites is not None else None
    client = client or site
    found = _read_sources(sources)
    if names is not None:
        found = [_select_sites(one, names) for one in found]
    known = sorted({one.client for run in found for one in run.properties} - {""})
    if client and client not in known:
        raise UsageError(
            f"the sources contain no mined properties of client `{client}`",
            expected=", ".join(known[:20]) or "a run with `infer` statements in its rules",
            help="remove --client (or --site) for rules of all clients",
        )
    made = ontologies.propose_rules(found, client=client, least=confidence, level=level)
    if options:
        review(sources[0], found[0], made.candidates, options, show=not as_json)
    text, decided = made.text, {}
    if len(sources) == 1 and sources[0].is_dir():
        from fedkg.jobs.suggestion_reviews import accepted_rules, read_reviews, valid_reviews

        decided = valid_reviews(read_reviews(sources[0]))
        text = accepted_rules(decided) if accepted else text
    if output is not None:
        write_atomically(output, text)
    if as_json:
        print_json(
            {
                "rules": made.rules,
                "causes": made.causes,
                "notes": made.notes,
                "candidates": [
                    one.model_dump() for one in made.candidates if one.kind in ("rule", "cause")
                ],
                "reviews": [one.model_dump(mode="json") for one in decided.values()],
                "text": text,
            }
        )
    elif accepted or options:
        _show_reviewed(sources[0], output, text if accepted else "", len(decided))
    elif output is None:
        print_line(made.text.rstrip("\n"))
    else:
        print_line(
            f"{output}: {count_noun(made.rules, 'rule')}, {count_noun(made.causes, 'cause')}, "
            f"{count_noun(made.notes, 'note')}"
        )
        graphs = [shlex.quote(str(source)) for source in sources if source.is_file()] or [
            "learned.trig"
        ]
        if made.causes and not any(source.is_file() for source in sources):
            print_line(
                "its causes need a graph: fedkg ontology learned "
                f"{shlex.quote(str(sources[0]))} -o learned.trig"
            )
        if made.rules or made.causes:
            files = [shlex.quote(str(output)), *(graphs if made.causes else [])]
            print_line(
                "next: review it, remove wrong proposals, then fedkg check "
                f"YOUR-RULES.fkg {' '.join(files)}"
                + (f" --sites {shlex.quote(str(sites))}" if sites is not None else "")
            )


def _show_reviewed(run: Path, output: Path | None, text: str, decided: int) -> None:
    """Print the accepted rules, or where they are and what to do next."""
    if text and output is None:
        print_line(text.rstrip("\n"))
    elif text:
        print_line(f"{output}: accepted suggestions, with {count_noun(decided, 'decision')} in all")
        print_line(f"next: fedkg check YOUR-RULES.fkg {shlex.quote(str(output))}")
    else:
        print_line(f"next: fedkg suggest {shlex.quote(str(run))} --accepted -o accepted.fkg")


def _select_sites(found: LearnedKnowledge, names: Sequence[str]) -> LearnedKnowledge:
    """The findings about these clients, and those about all clients together."""
    return found.model_copy(
        update={"properties": tuple(one for one in found.properties if one.client in ("", *names))}
    )


def _read_sources(sources: Sequence[Path]) -> list[LearnedKnowledge]:
    """The findings of runs and graphs. Raises UsageError for a source without findings."""
    from fedkg import authoring, ontologies

    found: list[LearnedKnowledge] = []
    for source in sources:
        own = (
            (read_findings(source),)
            if source.is_dir()
            else ontologies.load_findings(authoring.require_file(source))
        )
        if not any(one.properties or one.edges or one.evidence for one in own):
            raise UsageError(
                f"{source} contains no findings",
                help="name a run with `infer` statements in its rules, or a causal discovery"
                if source.is_dir()
                else "create a graph of findings: fedkg ontology learned RUN -o learned.trig",
            )
        found += own
    return found
