"""The files that a compilation reads: their kinds, what went in, their encoding and syntax, and the
data that ships with the compiler.

Readers of the compiler get their bytes through `read_bytes`; callers record the inputs with
`recording`, so that a pack can be kept until one of them changes, and so that somebody can watch
them.
"""

from __future__ import annotations

import gc
import hashlib
import os
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, Literal, TypeGuard, TypeVar, get_args

from fedkg._internal.graph_syntax import FUNCTIONAL, MANCHESTER, OBO, XML, graph_syntax
from fedkg.errors import FedkgError, LimitError
from fedkg.limits import read_file
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.diagnostic_spans import point, report

RULE_SUFFIXES = frozenset({".fkg"})
"""Rule files."""
GRAPH_SUFFIXES = frozenset(
    {
        *(".ttl", ".trig", ".nt", ".nq", ".rdf", ".owl", ".jsonld", ".xml", ".shacl"),
        *(".turtle", ".n3", ".ofn", ".owx", ".omn", ".xsd"),
    }
)
"""Files that are taken as graphs, which may hold shapes; `.omn` to reject it by name."""
QUERY_SUFFIXES = frozenset({".rq", ".sparql"})
"""Files that are taken as SPARQL violation queries."""
SHACL_NAMESPACE = b"http://www.w3.org/ns/shacl#"
"""A file without this text contains no shapes."""
STORE_STATE = "fedkg-store.json"
"""The file that makes a folder a store of graphs."""
_START = 1 << 16
"""The bytes that show the kind of a file."""
ABSENT = ""
"""The digest of a file that is not there or cannot be read."""


@dataclass(slots=True)
class Inputs:
    """What was read.

    Attributes:
        files: sha256 of each file, by its absolute path; `ABSENT` if the file did not exist or
            could not be read.
        listings: the files that a pattern found, by (absolute folder, pattern).
        remote: the endpoints that were queried; `unchanged` cannot tell whether their contents have
            changed.
        held: the contents that were read from endpoints, as (address, number of triples, their
            checksum); one entry for each distinct content.
    """

    files: dict[str, str] = field(default_factory=dict)
    listings: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    remote: set[str] = field(default_factory=set)
    held: set[tuple[str, int, str]] = field(default_factory=set)

    def unchanged(self) -> bool:
        """Whether every file still has its content and every pattern still finds the same files."""
        return all(_digest(path) == digest for path, digest in self.files.items()) and all(
            _matches(Path(folder), pattern) == found
            for (folder, pattern), found in self.listings.items()
        )


_recording: ContextVar[Inputs | None] = ContextVar("recording", default=None)
_standing_in: ContextVar[Mapping[str, bytes]] = ContextVar(
    "standing_in", default=MappingProxyType({})
)


@contextmanager
def recording() -> Iterator[Inputs]:
    """Note everything that is read inside, also in what calls this."""
    outer, inputs = _recording.get(), Inputs()
    token = _recording.set(inputs)
    try:
        yield inputs
    finally:
        _recording.reset(token)
        if outer is not None:
            outer.files |= inputs.files
            outer.listings |= inputs.listings
            outer.remote |= inputs.remote
            outer.held |= inputs.held


@contextmanager
def instead(bodies: Mapping[Path, bytes]) -> Iterator[None]:
    """Inside, these files are read with these bytes, to diagnose them before they are written."""
    token = _standing_in.set({_absolute(path): body for path, body in bodies.items()})
    try:
        yield
    finally:
        _standing_in.reset(token)


def read_bytes(path: Path, *, name: str = "file") -> bytes:
    """The bytes of a file within the limit `name`; absence is noted too.

    Raises OSError, ValueError and LimitError as `fedkg.limits.read_file` does.
    """
    try:
        instead_of = _standing_in.get().get(_absolute(path))
        body = read_file(path, name=name) if instead_of is None else instead_of
    except (OSError, ValueError):
        note(path, ABSENT)
        raise
    if _recording.get() is not None:
        note(path, hashlib.sha256(body).hexdigest())
    return body


def note(path: Path, digest: str) -> None:
    """Say that a file with this sha256 went in, for who reads it elsewhere; one that changed
    meanwhile is never unchanged.
    """
    inputs = _recording.get()
    if inputs is not None:
        place = _absolute(path)
        inputs.files[place] = digest if inputs.files.get(place, digest) == digest else ABSENT


def note_remote(name: str) -> None:
    """Say that an endpoint is asked."""
    inputs = _recording.get()
    if inputs is not None:
        inputs.remote.add(name)


def note_held(name: str, triples: int, digest: str) -> None:
    """Say what an endpoint held that was asked."""
    inputs = _recording.get()
    if inputs is not None:
        inputs.held.add((name, triples, digest))


def is_endpoint(argument: str | Path) -> bool:
    """Whether a graph is named by the address of a SPARQL endpoint rather than by a path."""
    return isinstance(argument, str) and argument.lower().startswith(("http://", "https://"))


def is_store(path: Path) -> bool:
    """Whether a path is a store of graphs on disk."""
    return (path / STORE_STATE).is_file()


def begins_as_graph(path: Path) -> bool:
    """Whether the text of a file begins like a graph or an ontology, or is JSON or XML, which need
    not hold a graph; False for rules, queries, and a file that cannot be read.
    """
    if path.suffix.lower() in RULE_SUFFIXES | QUERY_SUFFIXES or not path.is_file():
        return False
    try:
        return graph_syntax(read_start(path)) is not None
    except OSError:
        return False


def read_start(path: Path) -> str:
    """The beginning of a file, which shows its kind; "" if it is not text. Raises OSError."""
    with path.open("rb") as file:
        start = file.read(_START)
    # Up to three bytes of a character that is cut off may be at the end.
    texts = (decode(start[: len(start) - cut], str(path))[0] for cut in range(4))
    return next(filter(None, texts), "")


def holds_shapes(path: Path) -> bool:
    """Whether a file mentions SHACL; False for a file that cannot be read."""
    try:
        return SHACL_NAMESPACE in read_bytes(path, name="graph")
    except (OSError, ValueError):
        return False


def may_hold_rules(path: Path) -> bool:
    """Whether a file may have rules (`sh:rule`): it names SHACL and the word `rule`."""
    return holds_shapes(path) and b"rule" in read_bytes(path, name="graph")


def find(folder: Path, pattern: str) -> tuple[Path, ...]:
    """The files below `folder` that a pattern such as ``legacy/*.rq`` names, sorted.

    Raises ValueError for a pattern that is none.
    """
    found = _matches(folder, pattern)
    inputs = _recording.get()
    if inputs is not None:
        inputs.listings[str(folder.absolute()), pattern] = found
    return tuple(folder / name for name in found)


def _matches(folder: Path, pattern: str) -> tuple[str, ...]:
    start = len(str(folder / "name")) - len("name")
    return tuple(
        sorted(
            str(path)[start:].replace(os.sep, "/")
            for path in folder.glob(pattern)
            if path.is_file()
        )
    )


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(read_file(path)).hexdigest()
    except (OSError, ValueError, LimitError):
        return ABSENT


def _absolute(path: Path) -> str:
    # for thousands of files Path takes its time
    return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118


# Results that are remembered while their inputs are unchanged: an editor compiles a file again and
# again, and its graph is loaded once.

Result = TypeVar("Result")


@dataclass(slots=True)
class InputMemory:
    """The last result that was read from files, with these files (`Any`: of any type)."""

    _key: Hashable = None
    _inputs: Inputs | None = None
    _result: Any = None

    def get(self, key: Hashable, read: Callable[[], Result]) -> Result:
        """The result for this key: the last one if its files are unchanged, else a new one.

        The content of an endpoint can change unseen, so it is always read again.
        """
        same = self._inputs is not None and key == self._key
        if same and self._inputs and not self._inputs.remote and self._inputs.unchanged():
            result: Result = self._result
            return result
        self._inputs = self._result = None
        gc.collect()  # a graph is in cycles, and nobody counts what its stores take
        with recording() as inputs:
            result = read()
        self._key, self._inputs, self._result = key, inputs, result
        return result


_memory: ContextVar[InputMemory | None] = ContextVar("input_memory", default=None)


@contextmanager
def remembering(memory: InputMemory) -> Iterator[None]:
    """Inside, `remembered` takes its result from `memory` where nothing has changed."""
    token = _memory.set(memory)
    try:
        yield
    finally:
        _memory.reset(token)


def remembered(key: Hashable, read: Callable[[], Result]) -> Result:
    """The result for this key: remembered, or read."""
    memory = _memory.get()
    return read() if memory is None else memory.get(key, read)


# Finds out what a file is: the encoding of its bytes; and from its first characters and its name
# an RDF syntax, another source, or none of them.

RdfSyntax = Literal["turtle", "n-triples", "rdf-xml", "json-ld", "trig", "n-quads"]
SourceSyntax = Literal["owl-functional", "owl-xml", "xml-schema", "opcua-nodeset", "b2mml", "sssom"]
Syntax = RdfSyntax | SourceSyntax

EXTENSIONS: dict[str, RdfSyntax] = {
    ".ttl": "turtle",
    ".turtle": "turtle",
    ".n3": "turtle",
    ".shacl": "turtle",
    ".nt": "n-triples",
    ".trig": "trig",
    ".nq": "n-quads",
    ".rdf": "rdf-xml",
    ".owl": "rdf-xml",
    ".xml": "rdf-xml",
    ".jsonld": "json-ld",
    ".json": "json-ld",
}
"""File name endings, with the syntax that they announce; what the content shows goes before it."""

RDF_SUFFIXES = (
    *(".ttl", ".nt", ".rdf", ".owl", ".jsonld", ".ofn", ".owx", ".xsd", ".xml"),
    *(".trig", ".nq", ".sssom.tsv"),
    ".omn",
)
"""The endings that `use NAME` tries, in this order; the last one to reject the file by name."""

_XML_SOURCES: dict[tuple[str, str], SourceSyntax] = {
    ("http://www.w3.org/2002/07/owl#", "Ontology"): "owl-xml",
    ("http://www.w3.org/2001/XMLSchema", "schema"): "xml-schema",
    ("http://opcfoundation.org/UA/2011/03/UANodeSet.xsd", "UANodeSet"): "opcua-nodeset",
}
# Python 3.11.2, among others, matches a look-ahead in a possessive repetition wrongly.
_HTML = re.compile(
    r"\s*+(?:<!--(?:(?!-->).)*-->\s*+)*+<(?:!doctype\s+html|html|head|body)\b",
    re.IGNORECASE | re.DOTALL,
)
_TURTLE_START = re.compile(
    r"(?:\s|#[^\n]*+(?:\n|$))*+($|[<@\[(]|[^\s:<]*:|(prefix|base|version)\s)", re.IGNORECASE
)
_SSSOM_COLUMN = re.compile(r"(?:^|\t)\"?(?:subject_id|object_id|mapping_justification)\"?(?:\t|$)")
_B2MML = "http://www.mesa.org/xml/B2MML"
"""The namespace of B2MML 7.0; those of earlier versions have a suffix such as `-V0600`."""


@dataclass(frozen=True, slots=True)
class NotRdf:
    """The actual format of a file that is not RDF, and advice."""

    what: str
    help: str


def is_rdf(syntax: Syntax) -> TypeGuard[RdfSyntax]:
    """Tell whether pyoxigraph reads a syntax.

    The others are read by `fedkg_compiler.graph.sources`.
    """
    return syntax in get_args(RdfSyntax)


def detect_format(text: str, name: str) -> Syntax | NotRdf:
    """Return the syntax of a file, or what it is instead of an ontology or a graph.

    Args:
        text: the content, or its first some thousand characters.
        name: the file's name; its ending decides where the content does not.
    """
    suffix = PurePath(name).suffix.lower()
    if not text or text.isspace():
        return NotRdf("an empty file", "a graph needs at least one triple; is this the right file?")
    if "\x00" in text[:4096]:
        return NotRdf(
            "a binary file",
            "give Turtle (.ttl), N-Triples (.nt), RDF/XML (.rdf, .owl) or JSON-LD (.jsonld)",
        )
    if _HTML.match(text):
        return NotRdf("a web page (HTML)", "download the file itself, not the page that shows it")
    if FUNCTIONAL.match(text):
        return "owl-functional"
    if _is_sssom(text, name):
        return "sssom"
    if MANCHESTER.match(text) or OBO.match(text):
        return NotRdf(
            "OWL in Manchester syntax" if MANCHESTER.match(text) else "an OBO ontology",
            "save it as RDF/XML, Turtle or in functional syntax, in Protege for example",
        )
    head = text.lstrip()
    if head.startswith("{") or (head.startswith("[") and suffix in (".jsonld", ".json")):
        return "json-ld"
    if XML.match(text):
        root = _root(text)
        return "b2mml" if is_b2mml(root[0]) else _XML_SOURCES.get(root, "rdf-xml")
    if suffix not in EXTENSIONS and not _TURTLE_START.match(text):
        return _other(suffix)
    announced = EXTENSIONS.get(suffix, "turtle")
    return "turtle" if announced in ("rdf-xml", "json-ld") else announced


def is_b2mml(namespace: str) -> bool:
    """Tell whether the namespace of a root element is that of a version of B2MML."""
    return namespace == _B2MML or namespace.startswith(f"{_B2MML}-V")


def _is_sssom(text: str, name: str) -> bool:
    """Tell whether a file is SSSOM/TSV: by its name, else by the columns after the metadata."""
    if name.lower().endswith(".sssom.tsv"):
        return True
    at = 0
    while text.startswith("#", at) and (at := text.find("\n", at) + 1):
        pass
    line = text[at : text.find("\n", at) if "\n" in text[at:] else len(text)].rstrip("\r")
    return "\t" in line and "predicate_id" in line and _SSSOM_COLUMN.search(line) is not None


def _other(suffix: str) -> NotRdf:
    """The diagnosis of a text that does not begin like Turtle and has a file name without a known
    suffix.
    """
    advice = "give Turtle (.ttl), RDF/XML (.rdf, .owl), OWL, an XML schema or an OPC UA node set"
    if suffix == ".fkg":
        return NotRdf("a rule file", f"{advice}; rule files are given to `fedkg check`")
    if suffix in (".csv", ".tsv"):
        return NotRdf("a table", f"{advice}; `fedkg new` makes rules of a sheet of limits")
    return NotRdf("plain text", advice)


def _root(text: str) -> tuple[str, str]:
    """Namespace and name of an XML text's first element; ("", "") if they are not visible without
    parsing.
    """
    at = 0
    while True:
        at = text.find("<", at)
        if at < 0:
            return "", ""
        closing = (
            "?>" if text.startswith("<?", at) else "-->" if text.startswith("<!--", at) else ""
        )
        if text.startswith("<!DOCTYPE", at):
            inner, end = text.find("[", at), text.find(">", at)
            closing = "]" if 0 <= inner < end else ">"
        if not closing:
            break
        at = text.find(closing, at)
        if at < 0:
            return "", ""
        at += len(closing)
    tag = text[at + 1 : at + 4096].split(">", 1)[0]
    name = re.match(r"[^\s/]*", tag)
    prefix, _, local = (name.group() if name else "").rpartition(":")
    declared = re.search(
        rf"""\bxmlns{":" + re.escape(prefix) if prefix else ""}\s*=\s*["']([^"']*)["']""", tag
    )
    return (declared.group(1) if declared else ""), local


_WIDE = {
    b"\xff\xfe": "utf-16",
    b"\xfe\xff": "utf-16",
    b"<\x00?\x00": "utf-16-le",
    b"\x00<\x00?": "utf-16-be",
}
"""The byte order marks of UTF-16."""


def decode(body: bytes, file: str) -> tuple[str, Diagnostic | None]:
    """Return the text of a file, or what keeps it from being one.

    UTF-8 with or without a mark, UTF-16 with one (XML without, too), and for XML the encoding that
    it names itself. What XML says of its encoding is taken out where it is another than UTF-8.
    """
    encoding = _WIDE.get(body[:2]) or _WIDE.get(body[:4]) or "utf-8-sig"
    try:
        text = body.decode(encoding).removeprefix("\ufeff")
        if encoding != "utf-8-sig" or (text.isascii() and not _DECLARES_UTF8.match(text)):
            text = _undeclared(text)
        return text, None
    except UnicodeDecodeError as error:
        before = body[: error.start]
        if body.lstrip()[:5] == b"<?xml":
            declared = _declared_encoding(body)
            if declared is not None:
                return declared, None
        line, column = (
            before.count(b"\n") + 1,
            len(before[before.rfind(b"\n") + 1 :].decode("utf-8", "replace")) + 1,
        )
        what = (
            "a binary file"
            if b"\x00" in body[:4096]
            else f"not in UTF-8: byte 0x{body[error.start]:02x}"
        )
        return "", report(
            "FKG102",
            point(file, line, column),
            f"{file} is {what}",
            help="check that this is the right file, or save it as UTF-8 text"
            if what == "a binary file"
            else "save the file as UTF-8",
        )


def _declared_encoding(body: bytes) -> str | None:
    """Return the text of an XML file that names its encoding, with that name taken out.

    None if it names none that works.
    """
    found = re.match(rb"""\s*<\?xml[^>]*encoding=["']([A-Za-z0-9._-]+)["']""", body)
    if found is None:
        return None
    try:
        text = body.decode(found.group(1).decode("ascii"))
    except (LookupError, UnicodeError):
        return None
    return _undeclared(text)


_DECLARES_UTF8 = re.compile(r"""\s*<\?xml[^>]*?\sencoding=["']utf-8["']""", re.IGNORECASE)


def _undeclared(text: str) -> str:
    return re.sub(r"""^(\s*<\?xml[^>]*?)\s+encoding=["'][^"']*["']""", r"\1", text, count=1)


# The data that ships with the compiler: `ontologies/` and `rules/`, in a checkout and in an
# installed wheel.

_PACKAGE = Path(__file__).resolve().parent
_PLACES = (_PACKAGE / "_data", _PACKAGE.parent.parent)
"""Inside the wheel, then the root of an editable checkout."""

LIBRARY = "rules"
"""The folder with the rule library, and how its files are called in diagnostics."""


def data_folder(name: str) -> Path:
    """Return the folder `name` (``"ontologies"`` or ``"rules"``) of this installation.

    Raises:
        FedkgError: where neither place has it; then the installation is damaged.
    """
    for place in _PLACES:
        if (place / name).is_dir():
            return place / name
    raise FedkgError(
        f"the folder {name}/ that belongs to fedkg is missing",
        expected=" or ".join(str(place / name) for place in _PLACES),
        help="install fedkg again",
    )


def library_path(path: Path) -> Path | None:
    """Where a file lies that diagnostics call ``rules/isa95/capacity.fkg``; None for every other
    file.
    """
    if path.parts[:1] != (LIBRARY,) or path.exists():
        return None
    inside = data_folder(LIBRARY).joinpath(*path.parts[1:])
    return inside if inside.is_file() else None
