"""The language server: `LanguageService` and the checks behind the Language Server Protocol 3.17.

It talks over standard input and output, with one client. A change is answered with the first part
of a quick check at once, with its other parts (what reads a changed declaration) as they are ready,
and with a full check in another process when nothing has changed for a while.
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from lsprotocol import types as lsp
from pygls.capabilities import get_capability
from pygls.exceptions import JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import TextDocument

from fedkg.errors import FedkgError
from fedkg.limits import limit
from fedkg_compiler.diagnostics.record import Diagnostic, Edit, Span
from fedkg_compiler.editor.full_check import ExampleVerdict, Request, Result
from fedkg_compiler.editor.incremental_check import IncrementalCheck
from fedkg_compiler.editor.language_service import (
    TABLE_SUFFIXES,
    Completion,
    LanguageService,
    format_text,
)
from fedkg_compiler.editor.omitted_statements import with_notes
from fedkg_compiler.editor.rule_document import RuleDocument
from fedkg_compiler.frontends.fkg.syntax.tree import Example
from fedkg_compiler.input_files import GRAPH_SUFFIXES

IDLE = 0.4
"""Seconds without a change after which the full check starts."""

PAUSE = 0.005
"""Seconds between two parts of a quick check, in which a change can arrive."""

FULL_CHECK = (sys.executable, "-m", "fedkg", "lsp", "--check")
"""The command that reads a `Request` and writes a `Result`."""

RUN_EXAMPLE = "fedkg.runExample"
"""The command behind the lens above an example; its arguments are the URI and the line from 0."""

_WATCHING = "workspace.did_change_watched_files.dynamic_registration"
"""The capability of a client that tells a server which files have changed on disk."""

_SEVERITIES = {
    "error": lsp.DiagnosticSeverity.Error,
    "warning": lsp.DiagnosticSeverity.Warning,
    "info": lsp.DiagnosticSeverity.Information,
}
_COMPLETIONS = {
    "value": lsp.CompletionItemKind.Variable,
    "variable": lsp.CompletionItemKind.Variable,
    "rule": lsp.CompletionItemKind.Property,
    "template": lsp.CompletionItemKind.Function,
    "function": lsp.CompletionItemKind.Function,
    "unit": lsp.CompletionItemKind.Unit,
    "term": lsp.CompletionItemKind.Class,
    "ontology": lsp.CompletionItemKind.Module,
    "class": lsp.CompletionItemKind.EnumMember,
    "column": lsp.CompletionItemKind.Field,
    "file": lsp.CompletionItemKind.File,
    "code": lsp.CompletionItemKind.Constant,
    "keyword": lsp.CompletionItemKind.Keyword,
}


@dataclass(slots=True)
class OpenFile:
    """An open file with what is known about it.

    Attributes:
        document: the text as of the last change.
        check: the quick check.
        service: the answers about places.
        diagnostics: those that the client shows.
        examples: the results of the last full check.
        waiting: the task with the rest of the quick check and the full check.
        origins: the triples behind rules, as far as a hover asked for them; of this text.
    """

    document: RuleDocument
    check: IncrementalCheck
    service: LanguageService
    diagnostics: tuple[Diagnostic, ...] = ()
    examples: tuple[ExampleVerdict, ...] = ()
    waiting: asyncio.Task[None] | None = None
    origins: dict[str, tuple[str, ...]] = field(default_factory=dict)


FullCheck = Callable[[Request], Awaitable[Result | None]]
"""Runs `check_fully`; None if it failed."""

Restriction = Callable[[RuleDocument], tuple[RuleDocument, tuple[Diagnostic, ...]]]
"""What can be checked of a document, and notes about the rest; see `omitted_statements`."""


class RuleLanguageServer(LanguageServer):
    """The server, with its open files.

    Args:
        run_full_check: where the full check runs: in another process, or in a browser in this one.
        version: of fedkg.
        restrict: finds what can be checked where libraries are absent; None: everything.
    """

    def __init__(
        self, run_full_check: FullCheck, version: str, restrict: Restriction | None = None
    ) -> None:
        super().__init__("fedkg", version)
        self.run_full_check = run_full_check
        self.restrict = restrict or (lambda document: (document, ()))
        self.files: dict[str, OpenFile] = {}
        self.graphs: tuple[str, ...] = ()
        self._published: dict[str, list[Diagnostic]] = {}

    async def check_fully(self, file: OpenFile, origin: str = "") -> Result | None:
        """Run the full check on the text of a file, or find the triples behind rule `origin`."""
        document, _ = self.restrict(file.document)
        request = Request(
            path=str(document.path),
            text=document.text,
            graphs=tuple(map(str, file.service.graphs)),
            origin=origin,
        )
        return await self.run_full_check(request)

    def source(self, uri: str) -> TextDocument:
        """The text that the client shows, for conversions of positions."""
        return self.workspace.get_text_document(uri)

    def open_file(self, uri: str) -> OpenFile:
        """The state of a file that the client has opened."""
        text = self.source(uri).source.replace("\r\n", "\n")
        known = self.files.get(uri)
        path = Path(to_fs_path(uri) or uri)
        if known is None:
            graphs = [str(path.parent / graph) for graph in self.graphs]
            check = IncrementalCheck(graphs=graphs)
            known = OpenFile(
                document=RuleDocument(path, text),
                check=check,
                service=LanguageService(graphs=graphs, memory=check.memory),
            )
            self.files[uri] = known
        elif known.document.text != text:
            known.document = RuleDocument(path, text)
            known.origins = {}
        return known

    def check_now(self, uri: str) -> None:
        """Publish the diagnostics of the first part of the quick check, and plan the others and the
        full check.
        """
        file = self.open_file(uri)
        if file.waiting is not None:
            file.waiting.cancel()
        parts = self._check_in_parts(file)
        if self._check_part(file, parts):
            self.publish(uri)
        file.waiting = asyncio.get_running_loop().create_task(self._go_on(uri, file, parts))

    def _check_in_parts(self, file: OpenFile) -> Iterator[tuple[Diagnostic, ...]]:
        document, notes = self.restrict(file.document)
        for found in file.check.check_in_parts(document):
            yield with_notes(found, notes)

    def _check_part(self, file: OpenFile, parts: Iterator[tuple[Diagnostic, ...]]) -> bool:
        """Take the diagnostics after the next part of a quick check; False if there is none, or if
        it failed.
        """
        found = None
        with self._failures_logged():
            found = next(parts, None)
        file.diagnostics = file.diagnostics if found is None else found
        return found is not None

    @contextmanager
    def _failures_logged(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001  a bug in one check must not prevent the next one
            text = str(error) if isinstance(error, FedkgError) else traceback.format_exc()
            self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Error, text))

    async def _go_on(
        self, uri: str, file: OpenFile, parts: Iterator[tuple[Diagnostic, ...]]
    ) -> None:
        """Publish what the other parts of a quick check change, then the full check."""
        await asyncio.sleep(PAUSE)
        shown = file.diagnostics
        while self._check_part(file, parts):
            if file.diagnostics != shown:
                shown = file.diagnostics
                self.publish(uri)
            await asyncio.sleep(PAUSE)
        with self._failures_logged():
            await self._check_fully(uri, file)

    def publish(self, uri: str) -> None:
        """Send the diagnostics of an open file, and of the other files where they have changed."""
        found = self._diagnostics_by_uri()
        for place in dict.fromkeys([uri, *self._published, *found]):
            ones = found.get(place, [])
            if place == uri or ones != self._published.get(place, []):
                items = [self.to_diagnostic(place, one) for one in ones]
                self.text_document_publish_diagnostics(
                    lsp.PublishDiagnosticsParams(uri=place, diagnostics=items)
                )
        self._published = found

    def _diagnostics_by_uri(self) -> dict[str, list[Diagnostic]]:
        """Those of the open files, and of the graphs, shapes and sheets that they use.

        An open file is checked as the client shows it. So what another file finds in it does not
        count: that one reads it from the disk.
        """
        found: dict[str, list[Diagnostic]] = {uri: [] for uri in self.files}
        for uri, file in self.files.items():
            for one in file.diagnostics:
                place = self._uri_of(one.span.file)
                if place is None or (place != uri and place in self.files):
                    continue
                ones = found.setdefault(place, [])
                if one not in ones:
                    ones.append(one)
        return found

    def _uri_of(self, file: str) -> str | None:
        """The URI of an open file, or of one on disk; None if there is no such file."""
        opened = (uri for uri, one in self.files.items() if str(one.document.path) == file)
        path = Path(file).absolute()
        return next(opened, from_fs_path(str(path)) if path.is_file() else None)

    def to_diagnostic(self, uri: str, found: Diagnostic) -> lsp.Diagnostic:
        """A diagnostic of the compiler as one of the protocol."""
        related = [
            lsp.DiagnosticRelatedInformation(location=location, message=one.message)
            for one in found.related
            if (location := self.to_location(one.span)) is not None
        ]
        return lsp.Diagnostic(
            range=self.to_range(uri, found.span),
            message=f"{found.message}\n{found.help}" if found.help else found.message,
            severity=_SEVERITIES[found.severity],
            code=found.code or None,
            source="fedkg",
            related_information=related,
        )

    def to_range(self, uri: str, span: Span) -> lsp.Range:
        """A span as a range in the units that client and server have agreed on."""
        source = self.source(uri)
        found = lsp.Range(
            lsp.Position(span.line - 1, span.column - 1),
            lsp.Position(span.end_line - 1, span.end_column - 1),
        )
        try:
            return source.position_codec.range_to_client_units(source.lines, found)
        except (OSError, UnicodeDecodeError):  # a file on disk that is not UTF-8
            return found

    def to_location(self, span: Span) -> lsp.Location | None:
        """A span of an open file or of one on disk; None if there is no such file."""
        uri = self._uri_of(span.file)
        return None if uri is None else lsp.Location(uri, self.to_range(uri, span))

    def place(self, uri: str, position: lsp.Position) -> tuple[int, int]:
        """Line and column of a position, counting characters from 1."""
        source = self.source(uri)
        found = source.position_codec.position_from_client_units(source.lines, position)
        return found.line + 1, found.character + 1

    def to_edits(self, uri: str, edits: Sequence[Edit]) -> list[lsp.TextEdit]:
        """Edits of the compiler as those of the protocol."""
        return [lsp.TextEdit(self.to_range(uri, one.span), one.text) for one in edits]

    async def _check_fully(self, uri: str, file: OpenFile) -> None:
        """Publish the diagnostics of the full check when nothing has changed for a while."""
        await asyncio.sleep(IDLE)
        document = file.document
        result = await self.check_fully(file)
        if result is None or file.document is not document:
            return
        checked, notes = self.restrict(document)
        found = file.check.remember(checked, result.diagnostics)
        file.diagnostics = with_notes(found, notes)
        file.service.rules = result.rules
        file.examples = result.examples
        self.publish(uri)


async def _check_in_process(request: Request) -> Result | None:
    """Run the full check in another process, which ends if the check is cancelled."""
    process = await asyncio.create_subprocess_exec(
        *FULL_CHECK,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    body = request.to_json().encode()
    try:
        output, _ = await asyncio.wait_for(process.communicate(body), limit("seconds"))
    except TimeoutError:
        return None
    finally:
        with suppress(ProcessLookupError):
            process.kill()
            await process.wait()
    return Result.from_json(output.decode()) if process.returncode == 0 else None


def make_server(
    run_full_check: FullCheck, version: str, restrict: Restriction | None = None
) -> RuleLanguageServer:
    """A server with all its features, not yet started."""
    server = RuleLanguageServer(run_full_check, version, restrict)

    @server.feature(lsp.INITIALIZE)
    def initialize(ls: RuleLanguageServer, params: lsp.InitializeParams) -> None:
        options: Any = params.initialization_options  # Any: JSON of the client
        graphs = options.get("graphs", []) if isinstance(options, dict) else []
        ls.graphs = tuple(one for one in graphs if isinstance(one, str))

    @server.feature(lsp.INITIALIZED)
    async def initialized(ls: RuleLanguageServer, params: lsp.InitializedParams) -> None:
        if get_capability(ls.client_capabilities, _WATCHING, default=False):
            suffixes = ",".join(one[1:] for one in sorted(GRAPH_SUFFIXES | TABLE_SUFFIXES))
            watcher = lsp.FileSystemWatcher(f"**/*.{{{suffixes}}}")
            options = lsp.DidChangeWatchedFilesRegistrationOptions([watcher])
            method = lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES
            registration = lsp.Registration(id=method, method=method, register_options=options)
            await ls.client_register_capability_async(lsp.RegistrationParams([registration]))

    @server.feature(lsp.TEXT_DOCUMENT_DID_OPEN)
    async def did_open(ls: RuleLanguageServer, params: lsp.DidOpenTextDocumentParams) -> None:
        ls.check_now(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CHANGE)
    async def did_change(ls: RuleLanguageServer, params: lsp.DidChangeTextDocumentParams) -> None:
        ls.check_now(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_SAVE)
    @server.feature(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES)
    async def did_save(ls: RuleLanguageServer, params: object) -> None:
        for uri in ls.files:  # another file may use what was saved
            ls.check_now(uri)

    @server.feature(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(ls: RuleLanguageServer, params: lsp.DidCloseTextDocumentParams) -> None:
        file = ls.files.pop(params.text_document.uri, None)
        if file is not None and file.waiting is not None:
            file.waiting.cancel()
        ls.publish(params.text_document.uri)

    @server.feature(lsp.TEXT_DOCUMENT_HOVER)
    async def hover(ls: RuleLanguageServer, params: lsp.HoverParams) -> lsp.Hover | None:
        uri = params.text_document.uri
        file, place = ls.open_file(uri), ls.place(uri, params.position)
        found = file.service.hover(file.document, *place)
        if found is None:
            return None
        text, span = found
        triples = await _find_origin(ls, file, *place)
        if triples:
            text += "\n\nFrom the graph:\n```text\n" + "\n".join(triples) + "\n```"
        value = lsp.MarkupContent(lsp.MarkupKind.Markdown, text)
        return lsp.Hover(value, ls.to_range(uri, span))

    @server.feature(
        lsp.TEXT_DOCUMENT_COMPLETION, lsp.CompletionOptions(trigger_characters=[":", '"', "`", "?"])
    )
    def complete(ls: RuleLanguageServer, params: lsp.CompletionParams) -> list[lsp.CompletionItem]:
        uri = params.text_document.uri
        file = ls.open_file(uri)
        found = file.service.complete(file.document, *ls.place(uri, params.position))
        return [_to_item(one) for one in found]

    @server.feature(lsp.TEXT_DOCUMENT_DEFINITION)
    def define(ls: RuleLanguageServer, params: lsp.DefinitionParams) -> lsp.Location | None:
        uri = params.text_document.uri
        file = ls.open_file(uri)
        span = file.service.definition(file.document, *ls.place(uri, params.position))
        return None if span is None else ls.to_location(span)

    @server.feature(lsp.TEXT_DOCUMENT_REFERENCES)
    def refer(ls: RuleLanguageServer, params: lsp.ReferenceParams) -> list[lsp.Location]:
        uri = params.text_document.uri
        file = ls.open_file(uri)
        spans = file.service.references(file.document, *ls.place(uri, params.position))
        return [lsp.Location(uri, ls.to_range(uri, span)) for span in spans]

    @server.feature(lsp.TEXT_DOCUMENT_RENAME)
    def rename(ls: RuleLanguageServer, params: lsp.RenameParams) -> lsp.WorkspaceEdit:
        uri = params.text_document.uri
        file, place = ls.open_file(uri), ls.place(uri, params.position)
        try:
            edits = file.service.rename(file.document, *place, params.new_name)
        except FedkgError as error:
            raise JsonRpcInvalidParams(str(error)) from error
        return lsp.WorkspaceEdit(changes={uri: ls.to_edits(uri, edits)})

    @server.feature(
        lsp.TEXT_DOCUMENT_CODE_ACTION,
        lsp.CodeActionOptions(code_action_kinds=[lsp.CodeActionKind.QuickFix]),
    )
    def act(ls: RuleLanguageServer, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        uri = params.text_document.uri
        file = ls.open_file(uri)
        first, last = params.range.start.line + 1, params.range.end.line + 1
        return [
            lsp.CodeAction(
                title=one.title,
                kind=lsp.CodeActionKind.QuickFix,
                diagnostics=[ls.to_diagnostic(uri, one.diagnostic)],
                edit=lsp.WorkspaceEdit(changes={uri: ls.to_edits(uri, one.edits)}),
                is_preferred=True,
            )
            for one in file.service.actions(file.diagnostics, file.document, first, last)
        ]

    @server.feature(lsp.TEXT_DOCUMENT_FORMATTING)
    def form(
        ls: RuleLanguageServer, params: lsp.DocumentFormattingParams
    ) -> list[lsp.TextEdit] | None:
        uri = params.text_document.uri
        text = format_text(ls.open_file(uri).document)
        if text is None:
            return None
        whole = lsp.Range(lsp.Position(0, 0), lsp.Position(len(ls.source(uri).lines), 0))
        return [lsp.TextEdit(whole, text)]

    @server.feature(lsp.TEXT_DOCUMENT_CODE_LENS)
    def show_lenses(ls: RuleLanguageServer, params: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        uri = params.text_document.uri
        file = ls.open_file(uri)
        return [
            lsp.CodeLens(
                range=lsp.Range(lsp.Position(line, 0), lsp.Position(line, 0)),
                command=lsp.Command("Run example", RUN_EXAMPLE, arguments=[uri, line]),
            )
            for statement in file.document.statements
            if isinstance(statement.tree, Example)
            for line in (statement.chunk.line - 1,)
        ]

    @server.command(RUN_EXAMPLE)
    async def run_example(ls: RuleLanguageServer, uri: str, line: int) -> str:
        """Run the example on a line (from 0); the result is shown and returned."""
        file = ls.open_file(uri)
        result = await ls.check_fully(file)
        examples = () if result is None else result.examples
        found = next((one for one in examples if one.line == line + 1), None)
        text = "the rules have errors" if found is None else found.text
        passed = found is not None and found.passed
        kind = lsp.MessageType.Info if passed else lsp.MessageType.Error
        ls.window_show_message(lsp.ShowMessageParams(kind, f"example: {text}"))
        return text

    return server


async def _find_origin(
    server: RuleLanguageServer, file: OpenFile, line: int, column: int
) -> tuple[str, ...]:
    """The triples behind the first entity of the rule at a place."""
    found = file.document.occurrence_at(line, column)
    if found is None or found.kind != "rule":
        return ()
    facts = file.service.rules.get(found.name)
    if facts is None or not facts.entities:
        return ()
    if found.name not in file.origins:
        result = await server.check_fully(file, found.name)
        file.origins[found.name] = () if result is None else result.facts
    return file.origins[found.name]


def _to_item(one: Completion) -> lsp.CompletionItem:
    return lsp.CompletionItem(
        label=one.label,
        kind=_COMPLETIONS[one.kind],
        detail=one.detail or None,
        insert_text=one.text or None,
    )


def serve() -> None:
    """Serve one client over standard input and output until it says `exit`."""
    make_server(_check_in_process, metadata.version("fedkg")).start_io()
