"""Reads files that the user adds to the local catalogue: one file, or an XML schema with its
includes, or a folder of XML schemas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePath
from urllib.parse import unquote, urlsplit

from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.rdf_reader import Document, list_digest, read_file, read_rdf
from fedkg_compiler.input_files import decode, detect_format


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """The bytes of a source, not yet understood.

    Attributes:
        source: the source as the user named it.
        files: the bytes of each file, by name: one file, or all files of an XML schema.
        is_folder: whether the source is a folder, so that the files are kept as a folder.
        sha256: the checksum of the one file; for several, that of the sorted lines
            ``<sha256>  <name>``.
    """

    source: str
    files: dict[str, bytes]
    is_folder: bool
    sha256: str

    def read(self) -> tuple[Document | None, tuple[Diagnostic, ...]]:
        """Return what the source says, and what is wrong with it."""
        path = local(self.source)
        if self.is_folder and path is not None:
            return read_file(path, shown=self.source)
        return read_rdf(next(iter(self.files.values())), file=self.source)


def local(source: str) -> Path | None:
    """Return the path that a source names, plainly or as a ``file:`` address.

    None for any other address.
    """
    if source.lower().startswith("file:"):
        return Path(unquote(urlsplit(source).path))
    return None if "://" in source else Path(source)


def take(source: str) -> tuple[Taken | None, tuple[Diagnostic, ...]]:
    """Return the bytes of a source, or None with the reason.

    An address is fetched as it is given, and nothing that it names.
    """
    try:
        path = local(source)
        urlsplit(source if path is None else "")
    except ValueError as error:
        message = f"{source} cannot be read: this is not a valid address: {error}"
        return None, (report("FKG101", point(source), message, help="correct the address"),)
    if path is not None and path.is_dir():
        files = {
            file.relative_to(path).as_posix(): file.read_bytes()
            for file in sorted(path.rglob("*.xsd"))
        }
        if not files:
            message = f"{source} is a folder without an XML schema"
            return None, (
                report(
                    "FKG101", point(source), message, help="give a file, or a folder of .xsd files"
                ),
            )
        return Taken(
            source=source, files=files, is_folder=True, sha256=_list_digest(files.items())
        ), ()
    from fedkg_compiler.graph.fetch import (
        fetch,
    )  # the libraries of HTTP and TLS, which a compilation has no need of

    body, problems = fetch(source)
    if body is None:
        return None, problems
    files = {PurePath(source).name: body}
    if path is not None:
        files |= _included(body, source, path)
    several = len(files) > 1
    digest = _list_digest(files.items()) if several else hashlib.sha256(body).hexdigest()
    return Taken(source=source, files=files, is_folder=several, sha256=digest), ()


def _included(body: bytes, source: str, path: Path) -> dict[str, bytes]:
    """The files that an XML schema includes from its folder; {} for any other file."""
    text, problem = decode(body, source)
    if problem is not None or detect_format(text, source) != "xml-schema":
        return {}
    from fedkg_compiler.graph.sources.xsd_files import gather

    return gather(text, source, path.parent).bodies


def _list_digest(files: Iterable[tuple[str, bytes]]) -> str:
    return list_digest((name, hashlib.sha256(body).hexdigest()) for name, body in files)
