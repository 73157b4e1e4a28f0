"""Asks a SPARQL 1.1 endpoint one query (SPARQL 1.1 Protocol, section 2.1.2; results in JSON, XML or
TSV), with patience and suspicion.

Temporary failures are retried: refused and interrupted connections, time-outs, the responses 429,
500, 502, 503 and 504, and incomplete responses. Permanent failures are reported at once: other
responses, web pages for people, redirects to other hosts. Nothing is sent to a host other than the
named one.
"""

from __future__ import annotations

import email.utils
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.message import Message
from typing import Any, NoReturn
from urllib.parse import urlencode, urljoin, urlsplit

from typing_extensions import override

from fedkg_compiler.graph import oxigraph as ox
from fedkg_compiler.graph.stores.credentials import LOOPBACK, VARIABLE, header_for
from fedkg_compiler.graph.stores.problem import StoreProblem

FORMATS = {
    "application/sparql-results+json": ox.QueryResultsFormat.JSON,
    "application/json": ox.QueryResultsFormat.JSON,
    "application/sparql-results+xml": ox.QueryResultsFormat.XML,
    "application/xml": ox.QueryResultsFormat.XML,
    "text/tab-separated-values": ox.QueryResultsFormat.TSV,
}
"""The supported result formats, by media type."""

_ACCEPT = (
    "application/sparql-results+json, application/sparql-results+xml;q=0.8, "
    "text/tab-separated-values;q=0.5"
)
_PASSING = frozenset({429, 500, 502, 503, 504})
_MOST_BYTES = 1 << 30
_AT_ONCE = 1 << 20
_MOST_WAIT_S = 60.0

Solution = tuple[ox.NamedNode | ox.BlankNode | ox.Literal | ox.Triple | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """Time limits for an endpoint.

    Attributes:
        step_s: seconds to wait for the next byte.
        answer_s: seconds for one whole answer.
        tries: the number of attempts for each query.
        first_wait_s: seconds before the second attempt; the time doubles with each further attempt.
        wait: the function that waits, given seconds.
    """

    step_s: float = 60.0
    answer_s: float = 600.0
    tries: int = 5
    first_wait_s: float = 0.5
    wait: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A SPARQL endpoint; `name` is its address without the part after ``?``."""

    address: str
    name: str
    patience: Patience = field(default_factory=Patience)
    header: tuple[str, str] | None = field(default=None, repr=False)

    def ask(self, query: str) -> list[Solution]:
        """Return all solutions of a SELECT, in the order of its variables.

        Raises:
            StoreProblem: FKG140, FKG141, with the name of the endpoint in it, after the last try.
        """
        wait_s = self.patience.first_wait_s
        for attempt in range(1, self.patience.tries + 1):
            try:
                return _solutions(*self._answer(query))
            except StoreProblem as problem:
                if not problem.passing:
                    raise StoreProblem(
                        problem.code, f"{self.name} {problem}", help=problem.help
                    ) from None
                if attempt == self.patience.tries:
                    tried = f" ({attempt} tries)" if attempt > 1 else ""
                    raise StoreProblem(
                        problem.code, f"{self.name} {problem}{tried}", help=problem.help
                    ) from None
                self.patience.wait(
                    min(_MOST_WAIT_S, wait_s if problem.wait_s is None else problem.wait_s)
                )
                wait_s *= 2
        raise AssertionError(self.patience.tries)

    def _answer(self, query: str) -> tuple[bytes, str]:
        """The body of one answer, and what kind the server says it is."""
        headers = {
            "Accept": _ACCEPT,
            "User-Agent": "fedkg",
            "Content-Type": "application/x-www-form-urlencoded; charset=utf-8",
        }
        request = urllib.request.Request(
            self.address, data=urlencode({"query": query}).encode(), headers=headers
        )
        if self.header is not None:
            request.add_unredirected_header(*self.header)
        end = time.monotonic() + self.patience.answer_s
        try:
            with _opener(self.address).open(request, timeout=self.patience.step_s) as answer:
                parts: list[bytes] = []
                while part := answer.read(_AT_ONCE):
                    parts.append(part)
                    if time.monotonic() > end:
                        raise TimeoutError
                    if len(parts) > _MOST_BYTES // _AT_ONCE:
                        raise StoreProblem(
                            "FKG141",
                            f"answers with more than {_MOST_BYTES >> 20} MiB at once",
                            help="lower the number of rows that the server sends at once",
                        )
                expected = answer.headers.get("Content-Length", "")
                body = b"".join(parts)
                if expected.isdigit() and len(body) < int(expected):
                    raise StoreProblem(
                        "FKG140",
                        f"broke off after {len(body)} of {expected} bytes",
                        help=_AGAIN,
                        passing=True,
                    )
                return body, answer.headers.get_content_type()
        except urllib.error.HTTPError as error:
            with error:
                _complain(error, self.header is not None)
        except (http.client.InvalidURL, UnicodeError) as error:
            raise StoreProblem(
                "FKG140",
                f"is not a valid address: {error}",
                help="write spaces and letters outside ASCII as %20 and the like",
            ) from None
        except (TimeoutError, urllib.error.URLError, OSError, http.client.HTTPException) as error:
            raise StoreProblem("FKG140", self._reason(error), help=_AGAIN, passing=True) from None

    def _reason(self, error: Exception) -> str:
        inner = error.reason if isinstance(error, urllib.error.URLError) else error
        match inner:
            case TimeoutError():
                return f"gives no answer within {self.patience.step_s:g} s"
            case ConnectionRefusedError():
                return "cannot be reached: no server listens there"
            case http.client.IncompleteRead():
                return "broke off in the middle of an answer"
            case http.client.HTTPException() | ConnectionError():
                return "went away in the middle of a query"
            case OSError() if inner.strerror:
                return f"cannot be reached: {inner.strerror.lower()}"
            case _:
                return f"cannot be reached: {inner}"


_AGAIN = "is the server running, and is the address right? then run the command again"


def open_endpoint(address: str, patience: Patience | None = None) -> Endpoint:
    """Return the endpoint at an address; nothing is sent yet.

    Raises:
        StoreProblem: FKG140 for an address that is none, FKG142 for credentials.
    """
    name = shown(address)
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise StoreProblem(
            "FKG140", f"{name} is not an address", help="https://host/path/query"
        ) from None
    if not host:
        raise StoreProblem(
            "FKG140", f"{name} is not an address: it names no host", help="https://host/path/query"
        )
    if "@" in parts.netloc:
        raise StoreProblem(
            "FKG142",
            f"the address of {name} has a name or password in it, which others on this "
            f"machine can see",
            help=f"put the header into {VARIABLE}",
        )
    return Endpoint(
        address=address.partition("#")[0],
        name=name,
        patience=patience or Patience(),
        header=header_for(address),
    )


def shown(address: str) -> str:
    """Return an address without user name, password and the part after ``?``, because each may be a
    secret.
    """
    scheme, _, rest = address.partition("?")[0].partition("#")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no address: what a query and its header are sent to is what the user named."""

    @override
    def redirect_request(self, *args: Any, **named: Any) -> None:
        """Nothing. `Any`: as in the base class."""


def _opener(address: str) -> urllib.request.OpenerDirector:
    direct = (urllib.request.ProxyHandler({}),) if urlsplit(address).hostname in LOOPBACK else ()
    return urllib.request.build_opener(_Stay(), *direct)


def _complain(error: urllib.error.HTTPError, had_header: bool) -> NoReturn:
    """Raise what an answer other than 200 means."""
    code, reason = error.code, str(error.reason or http.client.responses.get(error.code, ""))
    if code in (401, 403):
        advice = (
            "check that the value of the header is still valid"
            if had_header
            else f"put the value of the header Authorization into {VARIABLE}"
        )
        raise StoreProblem("FKG142", f"answers {code}: it requires credentials", help=advice)
    if 300 <= code < 400:
        parts = urlsplit(urljoin(error.url or "", error.headers.get("Location", "")))
        raise StoreProblem(
            "FKG140",
            f"answers {code}: it has moved",
            help=f"give the new address: {parts.scheme}://{parts.netloc}{parts.path}"
            if error.headers.get("Location")
            else "ask the operator of the server for the new address",
        )
    if code in _PASSING:
        wait_s = _asked_wait(error.headers)
        raise StoreProblem(
            "FKG140",
            f"answers {code} {reason}",
            help="try again later",
            passing=True,
            wait_s=wait_s,
        )
    advice = (
        "check that this is the address of the query service; it often ends with /query or /sparql"
        if code in (404, 405, 415)
        else "check that the address is that of a SPARQL 1.1 endpoint"
    )
    raise StoreProblem("FKG140", f"answers {code} {reason}", help=advice)


def _asked_wait(headers: Message) -> float | None:
    """The seconds in Retry-After (RFC 9110, section 10.2.3): a number or a date."""
    said = headers.get("Retry-After", "").strip()
    if said.isdigit():
        return float(said)
    try:
        return max(
            0.0, (email.utils.parsedate_to_datetime(said) - datetime.now(UTC)).total_seconds()
        )
    except (TypeError, ValueError):
        return None


def _solutions(body: bytes, kind: str) -> list[Solution]:
    known = FORMATS.get(kind)
    if known is None or body.lstrip()[:9].lower().startswith((b"<!doctype", b"<html")):
        what = (
            "a web page"
            if "html" in kind or body.lstrip()[:5].lower() in (b"<!doc", b"<html")
            else f"{kind}"
        )
        advice = (
            "give the address of the query service, not of its web page; it often ends with "
            "/query or /sparql"
        )
        raise StoreProblem("FKG141", f"answers with {what} instead of SPARQL results", help=advice)
    try:
        found = ox.parse_query_results(body, format=known)
        if not isinstance(found, ox.QuerySolutions):
            raise StoreProblem(
                "FKG141",
                "answers yes or no to a question for rows",
                help="check that the address is that of a SPARQL 1.1 endpoint",
            )
        return [tuple(solution) for solution in found]
    except (SyntaxError, ValueError):
        raise StoreProblem(
            "FKG141", "gives an incomplete or unreadable answer", help=_AGAIN, passing=True
        ) from None
