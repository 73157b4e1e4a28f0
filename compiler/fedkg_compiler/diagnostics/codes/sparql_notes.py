"""Codes of SPARQL violation queries that mean something else than they seem to, FKG356 to FKG358."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

SPARQL_NOTES: dict[str, Code] = {
    "FKG356": Code(
        "a bare number beside several units",
        """A number in a query, or in the graph, has no unit. Beside a value of the table it has that of the column, and here the columns
are in different units: the same number is a different limit for each. A sum over members in several units is in that of the first.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?m WHERE { ?m a plant:Mill ; plant:load ?t FILTER(?t > 60) }

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    @prefix qudt: <http://qudt.org/schema/qudt/> .
    @prefix unit: <http://qudt.org/vocab/unit/> .
    plant:M1 a plant:Mill . plant:M2 a plant:Mill .
    plant:s1 sosa:observes plant:load ; sosa:isHostedBy plant:M1 ; fkg:column "M1.load" ; qudt:unit unit:N-M .
    plant:s2 sosa:observes plant:load ; sosa:isHostedBy plant:M2 ; fkg:column "M2.load" ; qudt:unit unit:KiloN-M .

Say in which unit queries and rules speak of it: `signal load(?m) is plant:load in N.m`. Then every column is converted. Numbers
of the graph may have a unit each (`qudt:numericValue`, `qudt:unit`).""",
    ),
    "FKG357": Code(
        "an order, or a limit, of violations",
        """Every solution of a violation query is a violation, and rows of a table have no order: ORDER BY means nothing here, and with
LIMIT all violations are reported, not the first few. This is a note, no mistake.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?m WHERE { ?m plant:torque ?t FILTER(?t > 60) } ORDER BY DESC(?t) LIMIT 10

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .

`fedkg eval` shows how many violations there are, and the worst of them.""",
    ),
    "FKG358": Code(
        "an OPTIONAL that does not see what it reads",
        """By the standard an OPTIONAL inside another one, or inside braces, sees what stands before it in the same braces, and nothing
else: those braces are evaluated by themselves, before they are joined with what is around them. The same goes for BIND. What this one
reads has no value there, which is hardly what is meant.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?m WHERE { ?m a plant:Mill .
        OPTIONAL { OPTIONAL { ?m plant:maxTorque ?max } ?m plant:torque ?t } FILTER(?t > COALESCE(?max, 60)) }

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:M1 a plant:Mill .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .

Put what it needs before it: OPTIONAL { ?m plant:torque ?t OPTIONAL { ?m plant:maxTorque ?max } }.""",
    ),
}
"""Codes FKG356 to FKG358."""
