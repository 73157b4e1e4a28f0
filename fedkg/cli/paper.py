"""`fedkg paper`: repeat the experiments of the papers, with published values beside ours."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkg._internal.safe_text import count_noun
from fedkg.cli.console import AsJson, print_json, print_line, print_note, stdout_console
from fedkg.cli.output_files import check_output_path
from fedkg.cli.progress import ProgressDisplay
from fedkg.cli.run_job import stop_on_sigterm
from fedkg.errors import FedkgError, MissingExtra, Stopped, UsageError

if TYPE_CHECKING:
    from fedkg.papers.study import Paper, Size, Study


def paper(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="The paper; without it: a list of all.")
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", metavar="N", help="Only this table.")
    ] = None,
    figure: Annotated[
        list[str] | None, typer.Option("--figure", metavar="N", help="Only this figure.")
    ] = None,
    study: Annotated[
        list[str] | None,
        typer.Option("--study", metavar="STUDY", help="Only this study, as the list names it."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="The sizes of the paper; hours.")] = False,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Seconds, without verdicts: only that it runs.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(
            "--data",
            metavar="DIR",
            help="A folder with the real data sets, one folder each; others are generated.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", metavar="DIR", help="The folder; default: paper-NAME."),
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", metavar="N", min=1, help="Parallel runs.")
    ] = 1,
    page: Annotated[
        Path | None,
        typer.Option(
            "--page",
            metavar="FILE.md",
            help="Write the page of all claims from the results in paper-* (or --out).",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Repeat the tables and figures of a paper, with published values beside ours and a verdict.

    The folder contains the runs and one result for each study. Ctrl-C stops the command, and the
    same command continues it. Finished studies are shown again without running.

    \b
    Examples:
      fedkg paper
      fedkg paper scfa --table 3
      fedkg paper knowledge --data ~/datasets
      fedkg paper --page claims.md
    """
    if any(find_spec(module) is None for module in ("torch", "yaml", "scipy")):
        raise MissingExtra("repeating papers", "run")
    from fedkg.papers.catalogue import PAPERS

    if page is not None:
        _write_page(page, name, out)
        return
    if name is None:
        _list_papers(PAPERS, as_json)
        return
    if name not in PAPERS:
        raise UsageError(f"there is no paper `{name}`", expected=", ".join(PAPERS))
    if full and smoke:
        raise UsageError("--full and --smoke contradict each other", help="leave out one of them")
    wanted = [*(f"table {n}" for n in table or []), *(f"figure {n}" for n in figure or [])]
    wanted += study or []
    chosen = [PAPERS[name].study(one) for one in wanted] or list(PAPERS[name].studies)
    size: Size = "full" if full else "smoke" if smoke else "reduced"
    folder = out or Path(f"paper-{name}")
    with stop_on_sigterm():
        results, failed = _run(PAPERS[name], chosen, size, folder, data, jobs)
    if as_json:
        print_json({"folder": str(folder), "results": results, "failed": failed})
    if failed:
        raise typer.Exit(1)


def _run(
    paper: Paper, studies: list[Study], size: Size, folder: Path, data: Path | None, jobs: int
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Run studies and print each; the results, and the errors of those that failed. `Any`: JSON."""
    from fedkg.papers.study import Bench, format_seconds, run_study

    if data is not None and not data.is_dir():
        raise UsageError(
            f"--data {data} is not a folder",
            expected="a folder with data sets",
            help="correct the path, or leave out --data",
        )
    minutes = sum(one.minutes for one in studies)
    said = f"about {format_seconds(60 * minutes)} on two quiet cores" if size == "reduced" else ""
    said = said or ("seconds each" if size == "smoke" else "hours")
    print_note(
        f"{paper.title}: {count_noun(len(studies), 'study').replace('studys', 'studies')}, {said},"
        f" in {folder}. Ctrl-C stops; the same command continues."
    )
    results, failed, begun, done = [], {}, time.monotonic(), 0.0
    for number, study in enumerate(studies):
        left = 60 * (minutes - done)
        left *= (time.monotonic() - begun) / (60 * done) if done and size == "reduced" else 1.0
        about = f", about {format_seconds(left)} left" if size == "reduced" else ""
        print_note(f"[{number + 1}/{len(studies)}] {study.name}: {study.title}{about}")
        try:
            with ProgressDisplay() as show:
                bench = Bench(
                    folder=folder / size,
                    size=size,
                    data=data,
                    jobs=jobs,
                    on_event=show,
                    say=print_note,
                )
                result = run_study(paper, study, bench)
        except (KeyboardInterrupt, Stopped) as error:
            raise Stopped(
                f"stopped in {study.name}; finished rounds and studies are in {folder}",
                help="give the same command again to continue",
            ) from error
        except FedkgError as error:
            failed[study.name] = str(error)
            goes_on = ", the other studies continue" if number + 1 < len(studies) else ""
            print_note(f"{study.name} failed{goes_on}: {error}")
        else:
            results.append(result)
            _show(paper, result)
        done += study.minutes
    return results, failed


def _show(paper: Paper, result: dict[str, Any]) -> None:
    """Print one result. `Any`: JSON."""
    from rich.table import Table

    from fedkg.papers.study import format_ours

    print_line(
        f"\n{paper.name}, {result['study']}: {result['title']} (size {result['size']},"
        f" {count_noun(result['seeds'], 'seed')}, {result['seconds']:.0f} s)"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for header in ("", "published", "ours, mean and 95 % interval", "verdict", "note"):
        table.add_column(header, overflow="fold")
    for row in result["rows"]:
        cells = (row["label"], row["published"], format_ours(row), row["verdict"], row["note"])
        table.add_row(*(cell.replace("[", "\\[") for cell in cells))
    stdout_console().print(table)
    if result["size"] == "smoke":
        print_line("A smoke run shows that the study runs; its figures mean nothing.")


def _list_papers(papers: dict[str, Paper], as_json: bool) -> None:
    if as_json:
        print_json(
            {
                paper.name: {one.name: [one.title, one.minutes] for one in paper.studies}
                for paper in papers.values()
            }
        )
        return
    for paper in papers.values():
        minutes = sum(study.minutes for study in paper.studies)
        print_line(f"{paper.name}: {paper.title}, about {minutes:.0f} min")
        for study in paper.studies:
            print_line(f"  {study.name:<14} {study.minutes:4.1f} min  {study.title}")
    print_line("\nRun one with `fedkg paper NAME`, or `fedkg paper NAME --table 3`.")


def _write_page(page: Path, name: str | None, out: Path | None) -> None:
    from fedkg.papers.page import collect, write_results

    folders = [out] if out else sorted(Path().glob(f"paper-{name or '*'}"))
    if page.suffix != ".md":
        raise UsageError(
            f"--page {page} is not a Markdown file", expected="a name that ends with .md"
        )
    check_output_path(page, "claims.md", option="--page")
    results = collect(folders, page.with_suffix(".json"))
    write_results(results, page)
    print_line(f"{page}: {count_noun(len(results), 'result')}")
