"""A small plant, and a place in a rule file, for the tests of the graph."""

from __future__ import annotations

from fedkg_compiler.diagnostics.record import Span
from fedkg_compiler.graph import Catalog, Graph, load_graph
from fedkg_compiler.graph.standard_vocabularies import STANDARD_PREFIXES

PLANT = "https://example.org/plant#"
HERE = Span(file="rules.fkg", line=10, column=20, end_line=10, end_column=60)

PLANT_TTL = """
plant:enterprise a isa95:Enterprise ; rdfs:label "Beispiel AG"@de , "Example Ltd"@en .
plant:graz a isa95:Site ; isa95:SiteIsPartOfEnterprise plant:enterprise ; fkg:client "graz" ;
    fkg:keyColumn "site" .
plant:hall a isa95:Area ; isa95:AreaIsPartOfSite plant:graz .
plant:line a isa95:Production_Line ; isa95:CenterIsPartOfArea plant:hall .
plant:Mill rdfs:subClassOf mason:MillingMachine ; fkg:keyColumn "machine" .
plant:BigMill rdfs:subClassOf plant:Mill ; fkg:keyColumn "big machine" .
plant:M1 a plant:Mill ; isa95:UnitIsPartOfCenter plant:line ; mason:usesTool plant:T1 ;
    plant:low 3500 ; plant:high 9.0e3 ;
    rdfs:label "Mill one" ; fkg-isa95:feeds plant:M2 .
plant:M2 a plant:BigMill ; isa95:UnitIsPartOfCenter plant:line ; mason:usesTool plant:T2 ;
    fkg:keyValue "M-2" ;
    plant:limit [ a qudt:QuantityValue ; qudt:numericValue 5.5 ; qudt:unit unit:BAR ] ,
        [ qudt:value 2 ; qudt:hasUnit unit:N-M ] .
plant:T1 a fkg-mason:FaceMill .
plant:T2 a mason:Drill .
plant:torque a sosa:ObservableProperty ; fkg:column "Torque [Nm]" ; qudt:hasUnit unit:N-M .
plant:M1_torque a sosa:Sensor ; sosa:observes plant:torque ; sosa:isHostedBy plant:M1 .
plant:M2 sosa:hosts plant:M2_torque .
plant:M2_torque sosa:observes plant:torque ; fkg:column "TIC-2" ; qudt:unit unit:KiloN-M .
"""


def header(catalog: Catalog) -> str:
    """Return Turtle declarations of every prefix that the catalogue knows, and plant:."""
    prefixes = {**STANDARD_PREFIXES, **catalog.all_prefixes(), "plant": PLANT}
    return "".join(f"@prefix {prefix}: <{iri}> .\n" for prefix, iri in sorted(prefixes.items()))


def plant_graph(catalog: Catalog, text: str = PLANT_TTL) -> Graph:
    """Return the small plant under ISA-95 and MASON; fails where anything is wrong with it."""
    graph, problems, _ = load_graph(
        [("isa95", HERE), ("mason", HERE)],
        {"plant": (PLANT, HERE)},
        [],
        catalog=catalog,
        text_graphs=[("plant.ttl", header(catalog) + text)],
    )
    assert problems == ()
    return graph
