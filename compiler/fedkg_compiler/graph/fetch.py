"""Brings the bytes of a file that the user named: from a path, or from an http(s) address when that
is what was given.
"""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import unquote, urlsplit

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.diagnostic_spans import point, report

_TIMEOUT_S = 30.0
_MOST_BYTES = 512 * 1024 * 1024


def fetch(
    source: str, *, timeout_s: float = _TIMEOUT_S
) -> tuple[bytes | None, tuple[Diagnostic, ...]]:
    """Return the bytes of `source`, or None with the reason.

    Args:
        source: a path, a ``file:`` address, or an ``http:`` or ``https:`` address.
        timeout_s: how long, in seconds, each step of a download may take.
    """
    scheme = (
        urlsplit(source).scheme.lower()
        if "://" in source or source.lower().startswith("file:")
        else ""
    )
    if scheme in ("http", "https"):
        return _download(source, timeout_s)
    if scheme not in ("", "file"):
        return None, (
            _unreadable(
                source,
                f"addresses of the kind {scheme}: are not fetched",
                "give a path, or an http(s) address",
            ),
        )
    path = Path(unquote(urlsplit(source).path)) if scheme else Path(source)
    try:
        return path.read_bytes(), ()
    except FileNotFoundError:
        return None, (
            _unreadable(source, "there is no such file", "check the path and its spelling"),
        )
    except OSError as error:
        return None, (
            _unreadable(
                source,
                (error.strerror or str(error)).lower(),
                "check the path and the rights to read it",
            ),
        )


def _download(source: str, timeout_s: float) -> tuple[bytes | None, tuple[Diagnostic, ...]]:
    accept = (
        "text/turtle, application/rdf+xml;q=0.9, application/n-triples;q=0.8, "
        "application/ld+json;q=0.7, */*;q=0.5"
    )
    request = urllib.request.Request(source, headers={"Accept": accept, "User-Agent": "fedkg"})
    advice = "download the file by other means and give its path"
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            body: bytes = answer.read(_MOST_BYTES + 1)
            announced = answer.headers.get("Content-Length", "")
    except urllib.error.HTTPError as error:
        error.close()
        return None, (
            _unreadable(source, f"the server answers {error.code} {error.reason}", advice),
        )
    except TimeoutError:
        return None, (
            _unreadable(source, f"the server did not answer within {timeout_s:g} s", advice),
        )
    except urllib.error.URLError as error:
        return None, (_unreadable(source, f"{error.reason}", advice),)
    except (http.client.InvalidURL, ValueError) as error:
        return None, (
            _unreadable(
                source,
                f"this is not a valid address: {error}",
                "correct the address; write spaces and letters outside ASCII as %20 and the like",
            ),
        )
    except (OSError, http.client.HTTPException) as error:
        return None, (_unreadable(source, f"the connection broke: {error}", advice),)
    if announced.isdigit() and len(body) < min(int(announced), _MOST_BYTES):
        return None, (
            _unreadable(
                source, f"the connection broke off after {len(body)} of {announced} bytes", advice
            ),
        )
    if len(body) > _MOST_BYTES:
        return None, (
            _unreadable(source, f"it is larger than {_MOST_BYTES // 1024**2} MiB", advice),
        )
    return body, ()


def _unreadable(source: str, reason: str, help: str) -> Diagnostic:
    return report("FKG101", point(source), f"{source} cannot be read: {reason}", help=help)
