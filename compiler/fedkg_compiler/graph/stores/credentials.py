"""The header that an endpoint wants to see: from a file or from the environment, never from the
command line.

It is sent only to its endpoint, over an encrypted connection, and appears in no message, pack or
log.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fedkg_compiler.graph.stores.problem import StoreProblem

VARIABLE = "FEDKG_SPARQL_AUTHORIZATION"
"""Holds the value of the header Authorization for every endpoint that the file does not name."""
FILE_VARIABLE = "FEDKG_SPARQL_CREDENTIALS"
"""Holds the path of a TOML file: ``"https://host/path" = "Bearer ..."``, or ``= { header =
"X-API-Key", value = "..." }``."""
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x20-\x7e]+")


def header_for(address: str, environment: Mapping[str, str] = os.environ) -> tuple[str, str] | None:
    """Return name and value of the header for an endpoint; None if none is set.

    Raises:
        StoreProblem: FKG142, the file or the value cannot be used, or the connection would show it
            to others.
    """
    found = _from_file(address, environment.get(FILE_VARIABLE, ""))
    if found is None and (value := environment.get(VARIABLE, "")):
        found = ("Authorization", value)
    if found is None:
        return None
    if not _NAME.fullmatch(found[0]) or not _VALUE.fullmatch(found[1]):
        raise StoreProblem(
            "FKG142",
            "the header for this endpoint is not an HTTP header",
            help="one line of plain characters, without the header's name",
        )
    parts = urlsplit(address)
    if parts.scheme != "https" and parts.hostname not in LOOPBACK:
        advice = f"give the address with https://, or unset {VARIABLE}"
        raise StoreProblem(
            "FKG142",
            "the header for this endpoint would be sent over http://, where others can read it",
            help=advice,
        )
    return found


def _from_file(address: str, path: str) -> tuple[str, str] | None:
    """The entry with the longest address that the endpoint's begins with."""
    if not path:
        return None
    try:
        said: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8"))  # `Any`: TOML
    except (OSError, ValueError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "it is not TOML"
        message = (
            f"the file of credentials {path}, which {FILE_VARIABLE} names, cannot be read: {reason}"
        )
        raise StoreProblem(
            "FKG142", message, help='each line is `"https://host/path" = "Bearer ..."`'
        ) from None
    fitting = [prefix for prefix in said if _covers(prefix, address)]
    if not fitting:
        return None
    entry = said[max(fitting, key=len)]
    match entry:
        case str():
            return "Authorization", entry
        case {"header": str(name), "value": str(value)}:
            return name, value
        case _:
            advice = (
                'write `"https://host/path" = "Bearer ..."` or `= { header = "X-API-Key", value ='
                ' "..." }`'
            )
            raise StoreProblem(
                "FKG142",
                f"the entry for this endpoint in {path} is neither a text nor a header "
                "with a value",
                help=advice,
            )


def _covers(prefix: str, address: str) -> bool:
    """Whether an entry is for an address: the same scheme, host and port, and the same path or one
    below it.
    """
    mine, asked = urlsplit(prefix), urlsplit(address)
    path = mine.path.rstrip("/")
    below = not path or asked.path == path or asked.path.startswith(f"{path}/")
    return (mine.scheme, mine.netloc.lower()) == (asked.scheme, asked.netloc.lower()) and below
