"""The page with every claim of the papers: its verdict, its figures and its command."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedkg._internal.atomic_file import replace_file
from fedkg.errors import UsageError
from fedkg.papers.catalogue import PAPERS
from fedkg.papers.further_claims import FURTHER, Figures
from fedkg.papers.study import RESULTS, Paper, describe_row, format_ours, slug, version_of

RESULT_FIELDS = frozenset(
    ("paper", "study", "size", "seeds", "settings", "seconds", "load", "data", "rows")
)
"""Fields of a result that the page shows."""

NOT_PUBLISHED = frozenset(("–", "no claim"))
"""What rows have in place of a published value if no paper answers their question."""

INTRODUCTION = """# Claims of the papers

fedkg implements the methods of five papers. `fedkg paper` lists their tables and figures, and
`fedkg paper NAME` repeats them with published values beside ours. This page is generated from the
results.

Each claim becomes one number for each seed that is above 0 if the claim holds, such as a difference
of two methods or the distance to a limit. A verdict follows one rule about these numbers:

- *reproduced*: their 95 % interval is above 0, and their published size, if the paper states one,
  is inside the interval or within 25 % of our mean;
- *partly*: the claim holds with another size;
- *not*: the interval includes 0 or is below it;
- a claim about every training, such as a proved bound, is *reproduced* if it holds for each seed,
  otherwise *not*;
- *cannot be reproduced because ...*: data or details are missing;
- *one seed*: no verdict, because fewer than two seeds have a value.

The column "ours" shows means over seeds with 95 % intervals of the measured value, which may differ
from that number. "–" and "no claim" under "published" mark questions of ours that no paper answers,
most of them controls; they have verdicts by the same rule. The independent run is another
implementation of the method, on Covertype, which is not part of fedkg. Rows without a verdict are
context. Reduced runs are smaller than those of the papers (`--full`), so a verdict is about the
setting that is stated with it.

The papers on FedSGM and arXiv 2602.13004 (uncertainty of Granger causality) have no studies: only
their abstracts are available.

The pages about [SCFA](../concepts/scfa.md), [federated Granger
causality](../concepts/federated-granger.md) and [knowledge
injection](../how-to/knowledge-injection.md) explain the methods. The papers' symbols:

- SCFA: heterogeneity of the sites `alpha` (Dirichlet), distance of their gradients `D`, effect of
  the weights `gamma`, bound on a gradient `L_c`; in figure 2 the squared gradient is fitted by
  a / sqrt(round) + b rho with violation rate rho, and `r2` is R^2. Rounds `until 90 %` are
  [`rounds_to_90`](run-folder.md) of a run.
- PC-FedAvg: `H` local steps in a round; the "step of the theorem" is the longest that it allows.
- Granger: `M` clients with `P` states and `D` measurements each; "setting S" is the paper's first
  system; losses of client 2 with augmentation `(L_2)_a` and of the server `L_s`; `rho(H)` and
  `|I - H|` are the spectral radius of the map from one epoch's errors to the next and its distance
  from the identity; `mu` and `L` are the smallest and largest curvature of the loss.
- Knowledge: `P-KM` predicts a class, `R-KM` gives a range of classes; `ML` is each client alone,
  `FL` FedAvg, `MLwKM` and `FLwKM` are the same with knowledge.
"""


def collect(folders: Sequence[Path], earlier: Path | None = None) -> list[dict[str, Any]]:
    """The newest results of all studies, in the order of the papers. `Any`: JSON.

    Args:
        folders: folders of `fedkg paper NAME`; smoke runs do not count.
        earlier: a JSON file of earlier results, which results in the folders replace.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    if earlier is not None and earlier.is_file():
        for result in _read_results(earlier, list):
            found[result["paper"], result["study"]] = result
    files = [
        file
        for folder in folders
        for size in ("reduced", "full")
        for file in sorted((folder / size / RESULTS).glob("*.json"))
    ]
    if folders and not files:
        raise UsageError(
            "no results in " + ", ".join(map(str, folders)),
            expected="results of a run without --smoke",
            help="run a study first: fedkg paper NAME",
        )
    for file in files:
        [result] = _read_results(file, dict)
        result["data"] = "generated" if result["data"] == "generated" else "real where available"
        found[result["paper"], result["study"]] = result
    names = [(paper.name, study.name) for paper in PAPERS.values() for study in paper.studies]
    return [found[name] for name in names if name in found]


def _read_results(file: Path, kind: type) -> list[dict[str, Any]]:
    """The results in a JSON file: a list of them, or one. Raises UsageError. `Any`: JSON."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        document = None
    results = document if isinstance(document, list) else [document]
    if not isinstance(document, kind) or not all(
        isinstance(one, dict) and one.keys() >= RESULT_FIELDS for one in results
    ):
        raise UsageError(
            f"{file} does not contain results of studies",
            expected="a file that `fedkg paper` wrote",
            help="move this file elsewhere, and run the command again",
        )
    return results


def write_results(results: Sequence[dict[str, Any]], page: Path) -> None:
    """Write the page, and the results beside it as JSON. `Any`: JSON."""
    body = json.dumps(results, indent=1, ensure_ascii=False) + "\n"
    replace_file(page.with_suffix(".json"), body.encode())
    replace_file(page, render_page(results).encode())


def render_page(results: Sequence[dict[str, Any]]) -> str:
    """The page as Markdown; studies without a result are `not run yet`. `Any`: JSON."""
    by_name = {(result["paper"], result["study"]): result for result in results}
    further = {paper.name: further_rows(paper, results) for paper in PAPERS.values()}
    parts = [INTRODUCTION]
    rows = [
        row
        for several in (*(result["rows"] for result in results), *further.values())
        for row in several
        if row["verdict"]
    ]
    for of, own in (("claims of the papers", False), ("questions of ours", True)):
        verdicts = Counter(
            row["verdict"].partition(":")[0].partition(" because")[0]
            for row in rows
            if (row["published"] in NOT_PUBLISHED) == own
        )
        counts = ", ".join(f"{count} {name}" for name, count in sorted(verdicts.items()))
        parts.append(f"Verdicts on {of}: {counts or 'none yet'}.\n")
    for paper in PAPERS.values():
        parts.append(f"## {paper.name}: {paper.title}\n")
        for study in paper.studies:
            parts.append(f"### {paper.name}, {study.name}: {study.title}\n")
            command = f"`fedkg paper {paper.name} --study {slug(study.name)}`"
            result = by_name.get((paper.name, study.name))
            if result is None:
                parts.append(f"Not run yet. {command}\n")
                continue
            parts.append(
                f"{command}; size `{result['size']}`, {result['seeds']} seeds, data:"
                f" {result['data']}, {result['seconds']:.0f} s at a load of {result['load']}.\n"
            )
            if result.get("version") != version_of(paper.name, study):
                parts.append("The jobs or the code of this study have changed since this run.\n")
            if result["settings"]:
                settings = "; ".join(
                    "`" + one.replace("`", "'") + "`" for one in result["settings"]
                )
                parts.append(f"Runs: {settings}.\n")
            parts += _table(result["rows"])
            if (paper.name, study.name) == ("scfa", "saving"):
                judged = [row["verdict"] for row in result["rows"] if row["verdict"]]
                held = sum(one.startswith(("reproduced", "partly")) for one in judged)
                parts.append(
                    f"{held or 'None'} of the {len(judged)} conditions"
                    f" {'show' if held > 1 else 'shows'} a saving beyond the differences of the"
                    " seeds.\n"
                )
        if further[paper.name]:
            parts.append(f"### {paper.name}, further claims\n")
            parts.append(
                "These claims have no study of their own. Their values follow from the results of"
                " the studies that the notes name; the commands of these studies repeat them.\n"
            )
            parts += _table(further[paper.name])
    return "\n".join(parts)


def further_rows(paper: Paper, results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The further claims of a paper; empty without matching results of all its studies. `Any`:
    JSON.
    """
    found = {result["study"]: result for result in results if result["paper"] == paper.name}
    if paper.name not in FURTHER or any(study.name not in found for study in paper.studies):
        return []
    try:
        return [describe_row(row) for row in FURTHER[paper.name](Figures(found))]
    except (KeyError, ValueError):  # results of an older version, or with other numbers of seeds
        return []


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The lines of a table of rows, and an empty one. `Any`: JSON."""
    return [
        "| claim | published | ours | verdict | note |",
        "|---|---|---|---|---|",
        *(
            f"| {_cell(row['label'])} | {_cell(row['published'])} | {format_ours(row)}"
            f" | {_cell(row['verdict'])} | {_cell(row['note'])} |"
            for row in rows
        ),
        "",
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
