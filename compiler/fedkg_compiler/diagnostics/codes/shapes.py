"""Codes of SHACL shapes, FKG310 to FKG339."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

SHAPES: dict[str, Code] = {
    "FKG310": Code(
        "the graph violates a shape",
        """What the graph itself says was checked when the rules were compiled, and some nodes do not conform.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ;
        sh:property [ sh:path plant:serial ; sh:minCount 1 ] .  # P1 has no serial number

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:P1 a plant:Pump .

Complete the graph, or mend the shape. With `sh:severity sh:Warning` it is a warning, and a pack is made all the same.""",
    ),
    "FKG311": Code(
        "a shape that cannot be read",
        """It stands behind `sh:property` without a `sh:path`, or its `sh:path` is no path of SHACL: a property, a list of paths, or one of
sh:inversePath, sh:alternativePath, sh:zeroOrMorePath, sh:oneOrMorePath and sh:zeroOrOnePath.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ;
        sh:property [ sh:path [ sh:inverse plant:feeds ] ; sh:minCount 1 ] .  # sh:inversePath

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:P1 a plant:Pump .
""",
    ),
    "FKG312": Code(
        "a part of a shape that is not checked",
        """It can be decided neither on the graph nor on the rows of a table, or SHACL has no such word. The sentence says why.

    prefix plant: <https://example.org/plant#>
    signal pressure is plant:pressure in bar
    rows are plant:Pump
    rule low require pressure <= 8 bar
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ;
        sh:property [ sh:path plant:pressure ; sh:pattern "^[0-9]" ] .  # how a value is written is not known of a table's values

State it otherwise, or check it where the data is RDF. What a column of texts may hold is told by
`fkg:category` on its property. The other components of the shape are checked.""",
    ),
    "FKG313": Code(
        "a shape without focus nodes",
        """The shape speaks of a property that stands in the table, but no entity of the graph is a focus node of it, and nothing
says that the table's rows are.

    prefix plant: <https://example.org/plant#>
    signal pressure is plant:pressure in bar
    rule low require pressure <= 8 bar
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ; sh:property [ sh:path plant:pressure ; sh:maxInclusive 8 ] .

Where each row of the table is a member of the class, say `rows are plant:Pump`. Where the rows are about entities, give
the graph those entities. It is also said of any shape whose target class nothing in the graph speaks of: mostly the class is
spelt differently there, and the nearest one with members is named.""",
    ),
    "FKG314": Code(
        "a target that finds nothing out",
        """The shape's `sh:target` is no query that can be asked, or of a kind that is not known.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:target [ a sh:SPARQLTarget ; sh:select "SELECT ?pump WHERE { ?pump ?p ?o }" ] ;
        sh:property [ sh:path plant:serial ; sh:minCount 1 ] .  # SELECT ?this

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:P1 a plant:Pump .

The query selects `?this`, and can be split where it reads the table; prefixes come from `sh:prefixes`.""",
    ),
    "FKG315": Code(
        "a file without shapes",
        """The file after `shapes` says nothing in the vocabulary of SHACL.

    signal torque in N.m
    rule strong require torque <= 60 N.m
    shapes "plant.ttl"  # is it the graph? then give it to the command beside the rules

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:P1 a plant:Pump .

A shape is a sh:NodeShape or a sh:PropertyShape.""",
    ),
    "FKG316": Code(
        "shapes that cannot be decided",
        """The shapes break a rule of SHACL itself, so that nothing can be checked with them; the sentence is pySHACL's.
The query of a SPARQL constraint that is no SPARQL, or has a prefix that nothing declares, is told here too.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ;
        sh:sparql [ sh:select "SELEC $this WHERE { $this plant:serial ?serial }" ] .  # SELECT

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:P1 a plant:Pump .
""",
    ),
    "FKG317": Code(
        "a file of shapes that is not there",
        """The path after `shapes` is read from the folder of the rule file; it may be a pattern.

    shapes "shapes/*.ttl"
""",
    ),
    "FKG318": Code(
        "a property of a shape that nothing speaks of",
        """No column has this property, and no triple of the graph or of an ontology uses or declares it. So the shape finds no value
there, and mostly conforms whatever the data says.

    prefix plant: <https://example.org/plant#>
    signal pressure is plant:pressure in bar
    rule low require pressure <= 8 bar
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ;
        sh:property [ sh:path plant:presure ; sh:maxInclusive 8 ] .  # plant:pressure

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:P1 a plant:Pump .

Correct the name. A property that data may lack is known once an ontology declares it: `plant:serial a rdf:Property`. Nothing is said of
`sh:maxCount 0`, which forbids a property; and of one that the shape itself says may be absent (`sh:minCount 0`, a property that a closed
shape allows) only where a known one is spelt nearly like it.""",
    ),
    "FKG319": Code(
        "a shape that nothing leads to",
        """The shape has no target, and no other shape refers to it, so it is never checked.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:property [ sh:path plant:serial ; sh:minCount 1 ] .  # sh:targetClass plant:Pump

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    plant:P1 a plant:Pump ; plant:serial "A1" .

Give it a target, or refer to it from a shape that has one: `sh:node`, `sh:property`. One that is kept for later is told to be off with
`sh:deactivated true`.""",
    ),
    "FKG320": Code(
        "a data file that cannot be read",
        """The data after the shapes is no RDF, or broken at this place.

    fedkg eval shapes.ttl data.nt""",
    ),
    "FKG321": Code(
        "a class without members",
        """Shapes target a class, and the data file has no member of it. Nothing is checked for it.

    sh:targetClass plant:Pump        is it plant:PumpUnit in the data?""",
    ),
    "FKG322": Code(
        "a property that does not fit into columns",
        """A subject of the data file has more than eight values of it. A table has one column for each value. What reads the property is
not checked, for no subject.""",
    ),
    "FKG323": Code(
        "a target that a data file is not searched for",
        """Rows of a data file are the members of the classes that shapes target. Focus nodes that are named one by one, found by a
property or by a query are looked for in graphs alone.

    fedkg check shapes.ttl data.ttl        takes the data as a graph""",
    ),
    "FKG324": Code(
        "a bare number beside several units",
        """A number in a shape has no unit. Beside a column it has that of the column, and here the columns of the focus nodes are in
different units: the same number is a different limit for each.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    shapes "mill.shapes.ttl"

    # mill.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:MillShape a sh:NodeShape ; sh:targetClass plant:Mill ; sh:property [ sh:path plant:load ; sh:maxInclusive 60 ] .

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    @prefix qudt: <http://qudt.org/schema/qudt/> .
    @prefix unit: <http://qudt.org/vocab/unit/> .
    plant:M1 a plant:Mill . plant:M2 a plant:Mill .
    plant:s1 sosa:observes plant:load ; sosa:isHostedBy plant:M1 ; fkg:column "M1.load" ; qudt:unit unit:N-M .
    plant:s2 sosa:observes plant:load ; sosa:isHostedBy plant:M2 ; fkg:column "M2.load" ; qudt:unit unit:KiloN-M .

Say in which unit shapes and rules speak of it: `signal load(?m) is plant:load in N.m`. Then every column is converted.""",
    ),
    "FKG325": Code(
        "a variable that nothing in a query binds",
        """The query of a SPARQL constraint reads a variable to which no triple pattern, BIND or VALUES gives a value. A FILTER of it is
never true, so that the query finds no violation.

    prefix plant: <https://example.org/plant#>
    signal pressure is plant:pressure in bar
    rows are plant:Pump
    rule low require pressure <= 8 bar
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ;
        sh:sparql [ sh:select "SELECT $this WHERE { $this plant:pressure ?value . FILTER(?valu > 8) }" ] .  # ?value

`$this`, the parameters of a component and what SHACL binds itself have values beforehand.""",
    ),
    "FKG326": Code(
        "a value that a column never has",
        """The shape compares a column of texts with something that none of its declared categories (`fkg:category`) is: mostly it is
misspelt, or a number.

    prefix plant: <https://example.org/plant#>
    signal pressure is plant:pressure in bar
    rows are plant:Pump
    rule low require pressure <= 8 bar
    shapes "pump.shapes.ttl"

    # pump.shapes.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix sh: <http://www.w3.org/ns/shacl#> .
    plant:PumpShape a sh:NodeShape ; sh:targetClass plant:Pump ;
        sh:property [ sh:path plant:state ; sh:hasValue "On" ] .  # "on"

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    plant:state fkg:column "state" ; fkg:category "on", "off" .

Correct the shape, or declare the category.""",
    ),
}
"""Codes FKG310 to FKG339."""
