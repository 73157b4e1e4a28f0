"""The documentation site: valid HTML whose links lead somewhere, with everything that the modules
and alignments say of a term.
"""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import html5rdf
import pyoxigraph as ox
import pytest

from fedkg.errors import FedkgError
from fedkg_compiler.graph import Catalog
from fedkg_compiler.graph.publication.pages import site_files
from fedkg_compiler.graph.rdf_reader import read_rdf

OFFLINE = {"img", "script", "link", "iframe", "object", "source"}
"""Elements that could load something."""


@pytest.fixture(scope="module")
def site() -> dict[str, str]:
    return site_files()


class Page(HTMLParser):
    """The addresses, names and elements of a page, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.names: list[str] = []
        self.elements: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.elements.add(tag)
        self.targets += [told["href"] or ""] if tag == "a" else []
        self.names += [told["id"] or ""] if "id" in told else []

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def pages(site: dict[str, str]) -> dict[str, Page]:
    return {name: Page(text) for name, text in site.items() if name.endswith(".html")}


@pytest.mark.slow
def test_every_page_is_html_that_loads_nothing(site: dict[str, str]) -> None:
    parser = html5rdf.HTMLParser(strict=True)
    for name, text in site.items():
        if name.endswith(".html"):
            parser.parse(text)
            assert Page(text).elements & OFFLINE == set(), name
            assert "url(" not in text


def test_every_link_leads_to_a_file_and_a_place_in_it(site: dict[str, str]) -> None:
    found = pages(site)
    for name, page in found.items():
        assert len(page.names) == len(set(page.names)), name
        for target in page.targets:
            parts = urlsplit(target)
            if parts.scheme in ("http", "https"):
                continue
            assert parts.scheme == "", (name, target)
            file = unquote(parts.path) or name
            assert file in site, (name, target)
            if parts.fragment:
                assert unquote(parts.fragment) in found[file].names, (name, target)
    assert set(site) - {"index.html"} == {
        unquote(target) for target in found["index.html"].targets if target in site
    }


def test_every_module_has_a_page_and_its_turtle(site: dict[str, str], catalog: Catalog) -> None:
    for entry in catalog.entries.values():
        for file in (entry.module, *entry.parts, *entry.additions):
            assert site[file] == (catalog.folder / file).read_text(encoding="utf-8")
            page = Page(site[f"{PurePosixPath(file).stem}.html"])
            document, problems = read_rdf(site[file].encode(), file=file)
            assert problems == ()
            assert document is not None
            for quad in document.triples:
                last = quad.predicate.value.rsplit("#", 1)[-1].rsplit("/", 1)[-1]
                if last in ("label", "comment", "versionIRI", "license", "created", "modified"):
                    assert isinstance(quad.object, ox.Literal | ox.NamedNode)
                    assert quad.object.value in page.text, (file, quad)


def test_a_term_shows_its_mappings_from_both_ends(site: dict[str, str]) -> None:
    there, back = site["mason-operation.html"], site["iof.html"]
    assembly = there.partition('<section id="mason:Assembly">')[2].partition("</section>")[0]
    process = back.partition('<section id="iof:AssemblyProcess">')[2].partition("</section>")[0]
    assert 'href="iof.html#iof:AssemblyProcess"' in assembly
    assert 'href="mason-operation.html#mason:Assembly"' in process
    for section in (assembly, process):
        assert "<code>skos:exactMatch</code>" in section
        assert "Both join components to something larger." in section
        assert 'href="alignments/iof-mason.sssom.tsv"' in section
    system = site["iof.html"].partition('<section id="iof:EngineeredSystem">')[2]
    assert "skos:narrowMatch" in system.partition("</section>")[0]


def test_superclasses_are_links(site: dict[str, str]) -> None:
    lathe = site["mason-resource.html"].partition('<section id="mason:Lathe">')[2]
    assert '<a href="mason-resource.html#mason:Shearing_machine-tool">' in lathe
    equipment = site["isa95.html"].partition('<section id="isa95:Site">')[2]
    assert (
        '<a href="isa95-equipment.html#fkg-isa95:Equipment">'
        in equipment.partition("</section>")[0]
    )


def test_a_damaged_ontology_file_is_restored_in_the_clone(tmp_path: Path, catalog: Catalog) -> None:
    module = tmp_path / next(iter(catalog.entries.values())).module
    module.parent.mkdir(parents=True, exist_ok=True)
    module.write_text("<")
    with pytest.raises(FedkgError, match="git checkout -- ontologies"):
        site_files(catalog=replace(catalog, folder=tmp_path))
