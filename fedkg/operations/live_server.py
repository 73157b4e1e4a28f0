"""The server behind `fedkg serve`: pages of a run folder, updated by server-sent events.

One thread looks at the folder. Each connection has a thread; their number is limited, and slow
readers are dropped. Nothing grows with the length of a run except what `FolderView` remembers.

Source: HTML Living Standard, section 9.2, "Server-sent events".
"""

from __future__ import annotations

import hmac
import secrets
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from typing_extensions import override

from fedkg.errors import FedkgError, UsageError
from fedkg.jobs.checksum_log import LOG
from fedkg.jobs.events import EVENTS
from fedkg.operations.live_page import (
    SCRIPT,
    render_page,
    render_suggestions,
    render_view,
    stylesheet,
)
from fedkg.operations.run_follower import FolderView
from fedkg.operations.run_progress_texts import describe_folder

if TYPE_CHECKING:
    from fedkg.jobs.suggestion_reviews import Review
    from fedkg.learned_knowledge_records import Candidate, LearnedKnowledge

INTERVAL = 1.0
"""Seconds between two looks at the folder."""

HEARTBEAT = 3.0
"""Seconds after which an idle stream gets a comment: writing notices a closed connection."""

TIMEOUT = 10.0
"""Seconds that a connection may take to send a request or to receive an answer."""

MOST_CONNECTIONS, MOST_STREAMS = 32, 16
"""Connections, and event streams among them, that are open at the same time."""

MOST_FORM = 1 << 16
"""Bytes of a form."""

MOST_ROWS = 200
"""Sites, and rules, on the page."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


class FolderWatcher:
    """Looks at a folder in a thread, and keeps the changing part of the page.

    Attributes:
        folder: the folder of the run or of the sweep.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._view = FolderView(folder)
        self._changed = threading.Condition()
        self._body, self._version = render_view(folder, None, ""), 0
        self._is_stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fedkg serve", daemon=True)

    def start(self) -> None:
        """Look at the folder once, then start the thread."""
        self._look()
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, and wake everybody who waits."""
        self._is_stopped.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join(TIMEOUT)
        self._view.close()

    @property
    def body(self) -> str:
        """The changing part of the page now."""
        with self._changed:
            return self._body

    def wait(self, version: int) -> tuple[str, int] | None:
        """The body and its version once it is newer than `version`; None at the end.

        After `HEARTBEAT` seconds without a change, the body is "".
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._version > version or self._is_stopped.is_set(), HEARTBEAT
            )
            if self._is_stopped.is_set():
                return None
            return (self._body if self._version > version else "", self._version)

    def _run(self) -> None:
        before: object = None
        while not self._is_stopped.wait(INTERVAL):
            now = self._file_states()
            if self._view.has_ended() and now == before:
                continue  # an idle folder is only read again if a run continues in it
            self._look()
            before = now

    def _file_states(self) -> Sequence[tuple[int, int]]:
        found = []
        for name in (EVENTS, LOG):
            with suppress(OSError):
                state = (self.folder / name).stat()
                found.append((state.st_mtime_ns, state.st_size))
        return found

    def _look(self) -> None:
        problem = ""
        try:
            self._view.look()
        except (FedkgError, OSError) as error:
            problem = str(error)
        body = render_view(self.folder, describe_folder(self._view, most_rows=MOST_ROWS), problem)
        with self._changed:
            if body != self._body:
                self._body, self._version = body, self._version + 1
                self._changed.notify_all()


class SuggestionDesk:
    """The suggestions of the run, and the decisions about them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._known: tuple[LearnedKnowledge, Sequence[Candidate]] | None = None

    def read(self) -> tuple[LearnedKnowledge, Sequence[Candidate], dict[str, Review]]:
        """The findings, the suggestions to review, and the valid decisions.

        Raises FedkgError: the run is not finished or damaged, or the compiler is not installed.
        """
        from fedkg import ontologies
        from fedkg.jobs.learned_knowledge_reader import read_learned
        from fedkg.jobs.suggestion_reviews import read_reviews, reviewable, valid_reviews

        with self._lock:
            if self._known is None:  # a finished run has the same suggestions for ever
                learned = read_learned(self._folder)
                candidates = ontologies.propose_rules([learned]).candidates
                self._known = learned, list(reviewable(candidates).values())
            return *self._known, valid_reviews(read_reviews(self._folder))

    def record(self, form: dict[str, str]) -> None:
        """Record the decision of a form. Raises FedkgError if it is not valid."""
        from fedkg.jobs.suggestion_reviews import add_reviews, review_suggestion

        learned, candidates, _ = self.read()
        decision = form.get("decision")
        if decision not in ("accept", "reject"):
            raise UsageError(
                "the form contains no decision", expected="`decision` with `accept` or `reject`"
            )
        made = review_suggestion(
            learned,
            candidates,
            form.get("name", ""),
            "accept" if decision == "accept" else "reject",
            reviewer=form.get("reviewer", ""),
            reason=form.get("reason", ""),
            edited=form.get("statement", "") if decision == "accept" else "",
        )
        with self._lock:
            add_reviews(self._folder, [made])


class LiveServer(ThreadingHTTPServer):
    """The HTTP server of one folder.

    Attributes:
        watcher: looks at the folder.
        desk: the suggestions; None if this address may not review them.
        token: the secret that every form contains.
        streams: open event streams.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, watcher: FolderWatcher, address: str, port: int) -> None:
        self.watcher = watcher
        self.address = address
        self.desk = SuggestionDesk(watcher.folder) if _is_loopback(address) else None
        self.token = secrets.token_urlsafe(24)
        self.streams = threading.BoundedSemaphore(MOST_STREAMS)
        self._connections = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
        super().__init__((address, port), _Handler)

    @property
    def url(self) -> str:
        """The address of the live page."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"http://{host}:{self.server_port}/"

    def is_own_host(self, host: str) -> bool:
        """Whether a request means this server.

        A page of another host whose name was pointed at a loopback address does not (DNS
        rebinding).
        """
        if self.desk is None:
            return True
        return urlsplit(f"//{host}").hostname in ("localhost", "127.0.0.1", "::1", self.address)

    @override
    def process_request(self, request: Any, client_address: Any) -> None:
        if self._connections.acquire(blocking=False):
            try:
                super().process_request(request, client_address)
            except BaseException:
                self._connections.release()
                raise
            return
        with suppress(OSError):
            request.settimeout(1.0)
            request.sendall(b"HTTP/1.0 503 Too many connections\r\nRetry-After: 5\r\n\r\n")
        self.shutdown_request(request)

    @override
    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._connections.release()

    @override
    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        if not isinstance(error, OSError):  # readers may leave or be too slow at any time
            sys.stderr.write(f"error: a request failed: {type(error).__name__}: {error}\n")


class _Handler(BaseHTTPRequestHandler):
    server: LiveServer
    timeout = TIMEOUT
    server_version, sys_version = "fedkg", ""

    @override
    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        if not self.server.is_own_host(self.headers.get("Host", "")):
            self._answer_text(HTTPStatus.FORBIDDEN, "this server answers for its own address only")
            return
        may_review = self.server.desk is not None
        match urlsplit(self.path).path:
            case "/":
                watcher = self.server.watcher
                page = render_page(watcher.folder, watcher.body, may_review=may_review)
                self._answer_page(HTTPStatus.OK, page)
            case "/style.css":
                self._answer(HTTPStatus.OK, "text/css; charset=utf-8", stylesheet())
            case "/live.js":
                body = SCRIPT.read_bytes()
                self._answer(HTTPStatus.OK, "text/javascript; charset=utf-8", body)
            case "/events":
                self._stream()
            case "/suggestions" if may_review:
                self._show_suggestions(HTTPStatus.OK)
            case "/accepted.fkg" if may_review:
                self._send_accepted()
            case _:
                self._answer_text(HTTPStatus.NOT_FOUND, "there is no such page")

    def do_POST(self) -> None:
        desk = self.server.desk
        if desk is None or urlsplit(self.path).path != "/suggestions":
            self._answer_text(HTTPStatus.NOT_FOUND, "there is no such form")
            return
        form = self._read_form()
        if form is None:
            return
        origin = self.headers.get("Origin")
        if (
            not self.server.is_own_host(self.headers.get("Host", ""))
            or (origin is not None and urlsplit(origin).netloc != self.headers.get("Host"))
            or not hmac.compare_digest(form.get("token", "").encode(), self.server.token.encode())
        ):
            self._answer_text(HTTPStatus.FORBIDDEN, "reload the page, then decide again")
            return
        try:
            desk.record(form)
        except (FedkgError, OSError) as error:
            self._show_suggestions(HTTPStatus.BAD_REQUEST, str(error), form)
            return
        self.send_response(HTTPStatus.SEE_OTHER)
        self.send_header("Location", "/suggestions")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _read_form(self) -> dict[str, str] | None:
        """The fields of a form; None after an answer that rejects it."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdecimal()):
            self._answer_text(HTTPStatus.LENGTH_REQUIRED, "the length of the form is missing")
            return None
        if int(length) > MOST_FORM:
            self._answer_text(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the form is too long")
            return None
        body = self.rfile.read(int(length)).decode("utf-8", errors="replace")
        try:
            fields = parse_qs(body, keep_blank_values=True, max_num_fields=20)
        except ValueError:
            self._answer_text(HTTPStatus.BAD_REQUEST, "the form has too many fields")
            return None
        return {name: values[-1] for name, values in fields.items()}

    def _stream(self) -> None:
        """Send the view whenever it changes, until the reader leaves or the server ends."""
        if not self.server.streams.acquire(blocking=False):
            self._answer_text(HTTPStatus.SERVICE_UNAVAILABLE, "too many open pages")
            return
        try:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.end_headers()
            version = -1
            while (found := self.server.watcher.wait(version)) is not None:
                body, version = found
                lines = "".join(f"data: {line}\n" for line in body.splitlines())
                self.wfile.write((f"event: view\n{lines}\n" if body else ": idle\n\n").encode())
                self.wfile.flush()
        finally:
            self.server.streams.release()

    def _show_suggestions(
        self, status: HTTPStatus, problem: str = "", entered: dict[str, str] | None = None
    ) -> None:
        assert self.server.desk is not None, "the caller checks it"
        candidates: Sequence[Candidate] = ()
        reviews: dict[str, Review] = {}
        try:
            _, candidates, reviews = self.server.desk.read()
        except (FedkgError, OSError) as error:
            problem = problem or str(error)
        page = render_suggestions(
            self.server.watcher.folder,
            candidates,
            reviews,
            token=self.server.token,
            problem=problem,
            entered=entered or {},
        )
        self._answer_page(status, page)

    def _send_accepted(self) -> None:
        from fedkg.jobs.suggestion_reviews import accepted_rules

        assert self.server.desk is not None, "the caller checks it"
        try:
            text = accepted_rules(self.server.desk.read()[2])
        except (FedkgError, OSError) as error:
            self._answer_text(HTTPStatus.CONFLICT, str(error))
            return
        self._answer_text(HTTPStatus.OK, text.rstrip("\n"))

    def _answer_page(self, status: HTTPStatus, page: str) -> None:
        self._answer(status, "text/html; charset=utf-8", page.encode())

    def _answer_text(self, status: HTTPStatus, text: str) -> None:
        self._answer(status, "text/plain; charset=utf-8", f"{text}\n".encode())

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    @override
    def end_headers(self) -> None:
        for name, value in SECURITY_HEADERS.items():
            self.send_header(name, value)
        super().end_headers()


@contextmanager
def serve_folder(folder: Path, address: str, port: int) -> Iterator[LiveServer]:
    """Serve the pages of a folder in the block.

    Args:
        address: the address to listen on; suggestions can be reviewed on loopback addresses only.
        port: 0 for a free one.

    Raises:
        UsageError: the address or the port cannot be used.
        MissingExtra: the library for pages is not installed.
    """
    watcher = FolderWatcher(folder)
    try:
        server = LiveServer(watcher, address, port)
    except (OSError, OverflowError, UnicodeError) as error:  # a name may not suit DNS
        raise UsageError(
            f"cannot listen on {address} port {port}",
            received=getattr(error, "strerror", None) or str(error),
            help="choose another --port (0: a free one), or correct --address",
        ) from error
    thread = threading.Thread(target=server.serve_forever, name="fedkg http", daemon=True)
    try:
        watcher.start()
        thread.start()
        yield server
    finally:
        watcher.stop()
        if thread.ident is not None:
            server.shutdown()
        server.server_close()


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
