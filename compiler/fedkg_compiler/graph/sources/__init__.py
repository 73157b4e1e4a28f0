"""Converts ontology files that are not RDF to triples: OWL's two native syntaxes, XML schemas, OPC
UA node sets, B2MML documents, SSSOM mappings.

`docs/reference/ontology-sources.md` states the mappings. A reader's module is imported when such a
file is met, and not before.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from fedkg_compiler.graph.sources.result import NodeNames, Read

READERS: dict[str, str] = {
    "owl-functional": "owl_functional",
    "owl-xml": "owl_xml",
    "xml-schema": "xml_schema",
    "opcua-nodeset": "opcua_nodeset",
    "b2mml": "b2mml",
    "sssom": "sssom",
}
"""The syntax, as `fedkg_compiler.input_files` names it, and the module that reads it."""


def read_source(syntax: str, text: str, file: str, folder: Path | None) -> Read:
    """Return what a file of one of `READERS` says.

    Args:
        syntax: a key of `READERS`.
        text: the content of the file.
        file: the name of the file in messages.
        folder: the folder with the files that it includes; None if there is no such folder (the
            file came from an address), so that included files are not read.
    """
    read: Read = import_module(f"{__name__}.{READERS[syntax]}").read(text, file, folder)
    return read


def read_schemas(folder: Path, shown: str) -> Read:
    """Return what all XML schemas below a folder say. Raises OSError where one cannot be read."""
    from fedkg_compiler.graph.sources.xml_schema import read_folder

    return read_folder(folder, shown)


__all__ = ["READERS", "NodeNames", "Read", "read_schemas", "read_source"]
