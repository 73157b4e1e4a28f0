"""One pass over an XML file that refuses what XML should not do here: entities that grow, or that
point outside the file.
"""

from __future__ import annotations

from collections.abc import Callable
from xml.parsers import expat

from fedkg.limits import limit
from fedkg_compiler.diagnostics.record import Diagnostic
from fedkg_compiler.graph.diagnostic_spans import point, report
from fedkg_compiler.graph.xml_check import NOT_WELL_FORMED, Entities, Refused, too_deep


class Place:
    """The current position of the parser, in a file that messages call `file`."""

    def __init__(self, parser: expat.XMLParserType, file: str) -> None:
        self._parser = parser
        self.file = file

    def now(self) -> tuple[int, int]:
        """Line and column, from 1."""
        return self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1


Start = Callable[[str, dict[str, str]], None]


def walk(
    text: str,
    file: str,
    begin: Callable[[Place], tuple[Start, Callable[[str], None], Callable[[str], None]]],
    prefixes: dict[str, str] | None = None,
) -> tuple[Diagnostic, ...]:
    """Send the elements of an XML text to three callbacks, and return what stopped the pass early;
    () for a whole file.

    Args:
        text: the content, decoded; its encoding declaration is ignored.
        file: the name of the file in messages.
        begin: receives the place and returns three callbacks: one for start tags (name as
            ``NAMESPACE LOCAL``, attributes likewise), one for end tags, and one for text.
        prefixes: receives the declared prefixes with their namespaces; the first declaration of a
            prefix applies.
    """
    parser = expat.ParserCreate(encoding="utf-8", namespace_separator=" ")
    parser.buffer_text = True
    problems: list[Diagnostic] = []
    start, end, characters = begin(Place(parser, file))
    depth = 0

    def refuse(code: str, message: str, help: str) -> None:
        span = point(file, parser.CurrentLineNumber, parser.CurrentColumnNumber + 1)
        problems.append(report(code, span, message, help=help))
        raise Refused

    def opened(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > limit("depth"):
            refuse("FKG103", *too_deep())
        start(name, attributes)

    def closed(name: str) -> None:
        nonlocal depth
        depth -= 1
        end(name)

    def declared(prefix: str | None, iri: str | None) -> None:
        if prefixes is not None and iri is not None:
            prefixes.setdefault(prefix or "", iri)

    parser.StartElementHandler = opened
    parser.EndElementHandler = closed
    parser.CharacterDataHandler = characters
    parser.StartNamespaceDeclHandler = declared
    body = text.encode("utf-8", "surrogatepass")
    Entities(body, file, refuse).watch(parser)
    try:
        parser.Parse(body, True)
    except Refused:
        pass
    except expat.ExpatError as error:
        span = point(file, error.lineno, error.offset + 1)
        reason = expat.ErrorString(error.code)
        problems.append(
            report(
                "FKG103", span, f"the XML is not well-formed here: {reason}", help=NOT_WELL_FORMED
            )
        )
    return tuple(problems)
