"""The language server as an editor sees it: `fedkg lsp` behind pytest-lsp's client."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_lsp
from lsprotocol import types as lsp
from pytest_lsp import ClientServerConfig, LanguageClient

from fedkg.errors import LimitError
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.editor import language_server
from fedkg_compiler.editor.full_check import Request, Result
from fedkg_compiler.editor.incremental_check import IncrementalCheck
from fedkg_compiler.editor.language_server import OpenFile
from fedkg_compiler.editor.language_service import LanguageService
from fedkg_compiler.editor.rule_document import RuleDocument

TEXT = """signal druck in bar span 0 .. 20   # ä𝄞
rule a "Hält." require druck <= 8 bar
rule b require druck <= 6 bar
example of b fails for druck = 7 bar
"""

watched: list[Any] = []
"""The options with which the server asked for changes on disk; `Any`: JSON of the protocol."""


@pytest_lsp.fixture(
    config=ClientServerConfig(server_command=[sys.executable, "-m", "fedkg", "lsp"])
)
async def client(lsp_client: LanguageClient) -> AsyncIterator[None]:
    capabilities = lsp.ClientCapabilities(
        text_document=lsp.TextDocumentClientCapabilities(
            publish_diagnostics=lsp.PublishDiagnosticsClientCapabilities(related_information=True)
        ),
        workspace=lsp.WorkspaceClientCapabilities(
            did_change_watched_files=lsp.DidChangeWatchedFilesClientCapabilities(
                dynamic_registration=True
            )
        ),
    )
    watched.clear()

    @lsp_client.feature(lsp.CLIENT_REGISTER_CAPABILITY)
    def register(params: lsp.RegistrationParams) -> None:
        watched.extend(one.register_options for one in params.registrations)

    await lsp_client.initialize_session(lsp.InitializeParams(capabilities=capabilities))
    yield
    await lsp_client.shutdown_session()


async def shown(client: LanguageClient, uri: str, count: int) -> list[lsp.Diagnostic]:
    """The diagnostics of a file as soon as there are so many."""
    while len(found := client.diagnostics.get(uri, [])) != count:
        await client.wait_for_notification(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    return list(found)


@pytest.mark.slow
@pytest.mark.asyncio
async def test_a_session(client: LanguageClient, tmp_path: Path) -> None:
    uri = (tmp_path / "x.fkg").as_uri()
    document = lsp.TextDocumentIdentifier(uri)
    opened = lsp.TextDocumentItem(uri=uri, language_id="fkg", version=1, text=TEXT)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(opened))

    # the analysis of several rules comes with the full check
    [redundant] = await shown(client, uri, 1)
    assert (redundant.code, redundant.range.start) == ("FKG505", lsp.Position(1, 5))
    assert redundant.related_information is not None
    assert redundant.related_information[0].location.range.start.line == 2

    wrong = TEXT.replace("# ä𝄞", "").replace('"Hält."', '"ä𝄞"').replace("8 bar", "8 Bar")
    change = lsp.TextDocumentContentChangeWholeDocument(wrong)
    version = lsp.VersionedTextDocumentIdentifier(version=2, uri=uri)
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(version, [change]))
    await asyncio.sleep(0)
    while (found := client.diagnostics[uri])[0].code != "FKG211":
        await client.wait_for_notification(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    # 𝄞 is two UTF-16 units, in which clients count
    assert found[0].range.start == lsp.Position(1, wrong.split("\n")[1].index("Bar") + 1)

    actions = await client.text_document_code_action_async(
        lsp.CodeActionParams(document, found[0].range, lsp.CodeActionContext(found))
    )
    assert actions
    assert isinstance(actions[0], lsp.CodeAction)
    assert actions[0].edit is not None
    assert actions[0].edit.changes is not None
    assert [edit.new_text for edit in actions[0].edit.changes[uri]] == ["bar"]

    hover = await client.text_document_hover_async(lsp.HoverParams(document, lsp.Position(2, 16)))
    assert hover is not None
    assert isinstance(hover.contents, lsp.MarkupContent)
    assert hover.contents.value == "**signal druck**, in bar, span 0 .. 20"

    place = await client.text_document_definition_async(
        lsp.DefinitionParams(document, lsp.Position(2, 16))
    )
    assert isinstance(place, lsp.Location)
    assert place.range.start == lsp.Position(0, 7)

    edit = await client.text_document_rename_async(
        lsp.RenameParams(document, lsp.Position(2, 16), "p")
    )
    assert edit is not None
    assert edit.changes is not None
    assert [one.range.start.line for one in edit.changes[uri]] == [0, 1, 2, 3]

    lenses = await client.text_document_code_lens_async(lsp.CodeLensParams(document))
    assert lenses
    assert lenses[0].command is not None
    run = lenses[0].command
    restored = lsp.TextDocumentContentChangeWholeDocument(TEXT)
    version = lsp.VersionedTextDocumentIdentifier(version=3, uri=uri)
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(version, [restored]))
    result = await client.workspace_execute_command_async(
        lsp.ExecuteCommandParams(run.command, run.arguments)
    )
    assert result == "fails, as expected"


BROKEN = "@prefix x: <http://x.test/> .\nx:a x:b"


def problems(client: LanguageClient, file: Path) -> list[tuple[object, int]]:
    found = client.diagnostics.get(file.as_uri(), [])
    return [(one.code, one.range.start.line) for one in found]


async def until(client: LanguageClient, condition: Callable[[], object]) -> None:
    """Wait for a notification after which the condition is true."""
    async with asyncio.timeout(60):
        while not condition():
            await client.wait_for_notification(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)


@pytest.mark.slow
@pytest.mark.asyncio
async def test_problems_of_graphs_and_shapes_are_shown_in_their_files_until_they_are_gone(
    client: LanguageClient, tmp_path: Path
) -> None:
    rules, plant, shapes = (tmp_path / name for name in ("x.fkg", "plant.ttl", "s.ttl"))
    plant.write_text(BROKEN)
    shapes.write_text("x:s a x:c .")
    text = 'use plant\nshapes "s.ttl"\n' + TEXT
    opened = lsp.TextDocumentItem(uri=rules.as_uri(), language_id="fkg", version=1, text=text)
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(opened))
    await until(client, lambda: problems(client, plant) and problems(client, shapes))
    assert problems(client, plant) == [("FKG103", 1)]
    assert problems(client, shapes) == [("FKG103", 0)]
    assert problems(client, rules) == [("FKG315", 1)]

    while not watched:
        await asyncio.sleep(0.05)
    assert "ttl" in watched[0]["watchers"][0]["globPattern"]
    plant.write_text(BROKEN + " x:c .\n")
    changed = [lsp.FileEvent(plant.as_uri(), lsp.FileChangeType.Changed)]
    client.workspace_did_change_watched_files(lsp.DidChangeWatchedFilesParams(changed))
    await until(client, lambda: not problems(client, plant))
    assert problems(client, shapes) == [("FKG103", 0)]

    closed = lsp.TextDocumentIdentifier(rules.as_uri())
    client.text_document_did_close(lsp.DidCloseTextDocumentParams(closed))
    await until(client, lambda: not problems(client, shapes))


@pytest.mark.asyncio
async def test_a_failure_of_the_quick_check_is_logged_and_the_full_check_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran, logged = asyncio.Event(), list[str]()
    restrictions = iter([LimitError("too long"), ValueError("bug")])

    def restrict(document: RuleDocument) -> tuple[RuleDocument, tuple[Diagnostic, ...]]:
        for error in restrictions:
            raise error
        return document, ()

    async def run(request: Request) -> Result | None:
        ran.set()
        return None

    server = language_server.make_server(run, "1", restrict)
    monkeypatch.setattr(language_server, "IDLE", 0.0)
    file = OpenFile(RuleDocument(tmp_path / "x.fkg", TEXT), IncrementalCheck(), LanguageService())
    monkeypatch.setattr(server, "open_file", lambda _: file)
    monkeypatch.setattr(server, "window_log_message", lambda params: logged.append(params.message))
    server.check_now("x")  # the second one cancels what the first one has planned
    server.check_now("x")
    await asyncio.wait_for(ran.wait(), 10)
    assert logged[0] == "too long"
    assert "ValueError: bug" in logged[1]
