"""What the page of the playground asks of fedkg, in a web worker under Pyodide.

The editor talks to the language server of `fedkg_compiler.editor`. Verdicts and explanations come
from the functions behind `fedkg eval` and `fedkg explain`. Arguments and results are JSON texts.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tomllib
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from pathlib import Path

import numpy as np

from fedkg import authoring
from fedkg.authoring import is_graph
from fedkg.errors import FedkgError
from fedkg.evaluation import evaluate
from fedkg.evaluation.evaluate import violations
from fedkg.evaluation.example_runner import run_example
from fedkg.evaluation.table_readings import table_values
from fedkg.pack.bank import reads
from fedkg.tables import read_table
from fedkg_compiler.diagnostics.diagnostic_collector import Problems
from fedkg_compiler.diagnostics.record import Diagnostic, Span
from fedkg_compiler.editor.full_check import Request, Result, check_fully
from fedkg_compiler.editor.language_server import make_server
from fedkg_compiler.editor.omitted_statements import with_notes, without_unchecked
from fedkg_compiler.editor.rule_document import RuleDocument
from fedkg_compiler.frontends.fkg.binding.library import library_files
from fedkg_compiler.frontends.fkg.binding.signal_columns import trees_in
from fedkg_compiler.frontends.fkg.syntax.tree import EarlierModel, RuleFile, Use
from fedkg_compiler.input_files import instead
from fedkg_compiler.pipeline import asks_graph

FOLDER = Path("/playground")
"""The files of the page."""
PROJECT = Path("/fedkg/pyproject.toml")
RULES = "rules.fkg"
TABLE = "table.csv"
MOST_SIGNALS = 8
"""Signals of a rule that the timeline shows; of more, the first."""
WITHOUT = {
    "pyoxigraph": "rules that use an ontology or a graph need a library that the page lacks",
    "safetensors": "knowledge from a safetensors or ONNX file needs a library that the page lacks",
    "z3": "the solver is not loaded yet; try again in a moment",
}
"""Libraries that may be absent, and what a user reads who needs them."""


class AbsentLibraries(MetaPathFinder):
    """Turns the import of an absent library into an error that says what is missing."""

    def find_spec(self, name, path=None, target=None):
        """Raise FedkgError for a library of `WITHOUT`; other finders have not found it."""
        if name in WITHOUT:
            raise FedkgError(f"this does not run in the playground: {WITHOUT[name]}")


def load_pint() -> None:
    """Load pint as if there were no NumPy: it asks more of NumPy than the substitute has."""
    arrays = sys.modules["numpy"]
    sys.modules["numpy"] = None
    try:
        import pint  # noqa: F401
    finally:
        sys.modules["numpy"] = arrays


class _Port:
    """The writer of the language server: passes messages to the page."""

    def __init__(self, post: Callable[[str], None]) -> None:
        self._post = post

    def write(self, data: bytes) -> None:
        self._post(data.decode())

    def close(self) -> None:
        """Nothing to close."""


async def _check(request: Request) -> Result | None:
    """The full check in this thread; without the analysis of several rules, which needs SciPy."""
    return check_fully(request, run_example, reason=False)


class Session:
    """One page.

    Args:
        post: takes the messages of the language server, each as JSON.
    """

    def __init__(self, post: Callable[[str], None]) -> None:
        load_pint()
        if not any(isinstance(one, AbsentLibraries) for one in sys.meta_path):
            sys.meta_path.append(AbsentLibraries())
        project = tomllib.loads(PROJECT.read_text())["project"]
        self._server = make_server(_check, project["version"], _restrict)
        self._beside: dict[str, str] = {}
        self._server.protocol.set_writer(_Port(post), include_headers=False)

    def receive(self, message: str) -> None:
        """Pass a message of the page to the language server."""
        protocol = self._server.protocol
        protocol.handle_message(json.loads(message, object_hook=protocol.structure_message))

    def write_files(self, files: str) -> None:
        """Replace the files of the page: a JSON object of texts by name."""
        texts: dict[str, str] = json.loads(files)
        beside = {name: text for name, text in texts.items() if name != RULES}
        is_new, self._beside = beside != self._beside, beside
        FOLDER.mkdir(exist_ok=True)
        os.chdir(FOLDER)
        for path in [*Path().iterdir()]:
            path.unlink()
        for name, text in texts.items():
            Path(Path(name).name).write_text(text, encoding="utf-8")
        if is_new:
            for uri in [*self._server.files]:
                del self._server.files[uri]
                self._server.check_now(uri)

    def evaluate(self) -> str:
        """Verdicts of the rules on the table, with the trace of each rule; or an error."""
        return _answer(_evaluate)

    def explain(self, what: str) -> str:
        """The text that `fedkg explain` prints for a rule or a code; or an error."""
        return _answer(lambda: {"text": _explain(what)})

    def facts(self) -> str:
        """What the page runs on: the source of the arrays, and the libraries that are absent."""
        missing = [text for name, text in WITHOUT.items() if not _is_there(name)]
        return json.dumps({"arrays": getattr(np, "__version__", ""), "missing": missing})


def _is_there(name: str) -> bool:
    try:
        __import__(name)
    except (ImportError, FedkgError):
        return False
    return True


def _answer(ask: Callable[[], dict]) -> str:
    try:
        return json.dumps(ask())
    except FedkgError as error:
        return json.dumps({"error": str(error)})
    except (AttributeError, ImportError) as error:
        return json.dumps({"error": f"this needs a library that the playground lacks: {error}"})


def _restrict(document: RuleDocument):
    """What can be checked of a document without the absent libraries, and notes about the rest.

    Graphs beside the rules count even if no rule names them.
    """

    def reason(statement):
        needed = _library_of(statement, document.path)
        return WITHOUT[needed] if needed and not _is_there(needed) else ""

    checked, notes = without_unchecked(document, reason)
    if (graphs := _graphs()) and not _is_there("pyoxigraph"):
        start = Span(file=str(document.path), line=1, column=1, end_line=1, end_column=1)
        message = f"{', '.join(graphs)} is not read: {WITHOUT['pyoxigraph']}"
        notes = (Diagnostic(code="", severity="info", span=start, message=message), *notes)
    return checked, notes


def _library_of(statement, path: Path) -> str:
    """The library, perhaps absent, without which a statement cannot be checked; "" for none."""
    if asks_graph(statement):
        return "pyoxigraph"
    if isinstance(statement, Use):  # of rules, which may ask for a graph
        tree = RuleFile(file=str(path), text="", statements=(statement,))
        files = library_files([tree], [path], Problems())
        if any(asks_graph(one) for file in files for one in file.tree.statements):
            return "pyoxigraph"
    if any(isinstance(node, EarlierModel) for node in trees_in(statement)):
        return "safetensors"
    return ""


def _compiled():
    """The pack of the page's rules, and the notes about rules that are not part of it.

    Raises CompileError.
    """
    document, notes = _restrict(RuleDocument(Path(RULES), Path(RULES).read_text(encoding="utf-8")))
    with instead({document.path: document.text.encode()}):
        found = authoring.check([RULES], fresh=True, reason=False)
    if found.pack is None:
        wrong = with_notes(found.diagnostics, notes)
        raise authoring.CompileError(wrong, authoring.render(wrong))
    return found.pack, [f"line {one.span.line}: {one.message}" for one in notes]


def _graphs() -> list[str]:
    """The graphs of the page."""
    return sorted(path.name for path in Path().iterdir() if is_graph(path))


def _explain(what: str) -> str:
    if what.upper().startswith("FKG") and what[3:].isdigit():
        title, page = authoring.explain(what)
        return f"{what.upper()}: {title}\n\n{page.strip()}"
    return "\n".join(authoring.explain_in(_compiled()[0], what).lines())


def _evaluate() -> dict:
    pack, notes = _compiled()
    table = read_table(TABLE)
    found = evaluate(pack, table).to_json()
    contract = pack.manifest.contract
    table = table.with_headers((one.source, one.alternatives) for one in contract.columns)
    readings = table_values(contract, table)
    broken = violations(pack, table)
    traces = {}
    for number, record in enumerate(pack.manifest.rules):
        columns = sorted({column for bank in pack.banks for column in _columns_of(bank, number)})
        traces[record.name] = {
            "violated": sorted(set(broken.row[broken.rule == number].tolist())),
            "signals": [
                {
                    "name": contract.columns[at].source,
                    "unit": contract.columns[at].unit,
                    "values": [None if math.isnan(x) else x for x in readings.base[:, at].tolist()],
                }
                for at in columns[:MOST_SIGNALS]
            ],
        }
    times = readings.times
    found["notes"] = [*notes, *found["notes"]]
    return found | {"traces": traces, "times": None if times is None else [str(t) for t in times]}


def _columns_of(bank, rule: int):
    """The columns that the rows of a rule read in a bank."""
    for columns, _, rows in reads(bank):
        for own, row in zip(columns.tolist(), rows.tolist(), strict=True):
            if int(bank.rule[row]) == rule:
                yield from (at for at in own if at >= 0)
