"""Codes of SPARQL violation queries, FKG340 to FKG369."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code
from fedkg_compiler.diagnostics.codes.sparql_notes import SPARQL_NOTES

SPARQL: dict[str, Code] = {
    "FKG340": Code(
        "a query file that is not there",
        """`queries` names the files beside the rule file, by name or by pattern. Nothing is there, or it cannot be read.

    queries "legacy/*.rq"

The pattern is relative to the folder of the rule file; `**/*.rq` looks into all folders below it.""",
    ),
    "FKG341": Code(
        "a query that is not SPARQL",
        """The file is not a SPARQL 1.1 query: at this place something else is expected.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?m WHERE { ?m plant:torque ?t FILTER ?t > 60 }  # FILTER(?t > 60)

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:M1 a plant:Mill ; plant:maxTorque 60 .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .

Prefixes are those that the query declares, and those of the rule files and ontologies.""",
    ),
    "FKG342": Code(
        "a query that finds no violations",
        """Each solution of a violation query is something that is wrong, so it is a SELECT or an ASK.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    CONSTRUCT { ?m a plant:Overloaded } WHERE { ?m plant:torque ?t FILTER(?t > 60) }

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:M1 a plant:Mill ; plant:maxTorque 60 .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .

Write the part between the braces as SELECT ?m WHERE { ... }.""",
    ),
    "FKG343": Code(
        "a part of a query that cannot be split",
        """A query is split: the graph answers what it knows when rules are compiled, and what is left over observed values
becomes a formula. This part mixes both in a way that has no formula.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?m WHERE { ?m plant:torque ?t FILTER(regex(str(?t), "^6")) }  # a text made of an observed number

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:M1 a plant:Mill ; plant:maxTorque 60 .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .

Over observed values there are + - * /, comparisons, && || !, IN, BOUND, ABS, CEIL, FLOOR, ROUND, IF, COALESCE, the casts to
numbers, and = and != with texts. Over static facts all of SPARQL 1.1 is there: the store evaluates it.""",
    ),
    "FKG344": Code(
        "a pattern around an observed property that cannot be split",
        """An observed property stands in a table, so no path can be followed through it any number of times.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?m WHERE { ?m (plant:feeds|plant:torque)* ?t FILTER(?t > 60) }  # plant:torque is observed

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:M1 a plant:Mill ; plant:maxTorque 60 .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .

Sequences, inverses and alternatives are taken apart. Write others as triples of their own. Of a sosa:Observation, its
property, feature of interest, sensor and simple result are read.""",
    ),
    "FKG345": Code(
        "entities without a column",
        """The query asks for an observed property of these entities, and neither a sensor of theirs nor a key column tells where
the table has it. A value that is not there is no violation, so nothing is checked for them.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?m WHERE { ?m a plant:Mill ; plant:torque ?t FILTER(?t > 60) }

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:M1 a plant:Mill . plant:M2 a plant:Mill .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .

Give them a column where they should be checked.""",
    ),
    "FKG346": Code(
        "values in different rows of the table",
        """Key columns tell which table rows are about which entity. This query sets values of two entities beside each other that
never stand in one row.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?a WHERE { ?a plant:torque ?x . ?b plant:torque ?y . ?a plant:feeds ?b . FILTER(?x > ?y) }

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:Mill fkg:keyColumn "machine" . plant:torque a sosa:ObservableProperty ; fkg:column "Torque [Nm]" .
    plant:M1 a plant:Mill ; plant:feeds plant:M2 . plant:M2 a plant:Mill .

Give the entities columns of their own.""",
    ),
    "FKG347": Code(
        "values of different kinds",
        """Two values are compared or added that measure different things. Numbers in a query have no unit and take that of what
they stand beside; observed values have that of their signal, quantities of the graph that of `qudt:unit`.

    prefix plant: <https://example.org/plant#>
    signal torque is plant:torque in N.m
    signal pressure is plant:pressure in bar
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?m WHERE { ?m plant:torque ?t ; plant:pressure ?p FILTER(?t > ?p) }

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .
    plant:s2 sosa:observes plant:pressure ; sosa:isHostedBy plant:M1 ; fkg:column "M1.pressure" .

Compare values of one kind.""",
    ),
    "FKG348": Code(
        "violations among the static facts",
        """The query, or this alternative of it, reads nothing that is observed, so the graph alone answers it, now. Every solution
is a violation. They are listed here; the pack has nothing to check.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?m WHERE { ?m a plant:Mill . FILTER NOT EXISTS { ?m plant:maxTorque ?x } }

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:M1 a plant:Mill .

Mend the graph.""",
    ),
    "FKG349": Code(
        "a comment that is no option",
        """The leading comments of a query may say what a rule says: a title, its kind, its weight, that it is hard.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    # title: The torque stays below the limit of the machine.
    # kind: capacity
    # weight: heavy
    # hard
    PREFIX plant: <https://example.org/plant#>
    SELECT ?m WHERE { ?m plant:torque ?t FILTER(?t > 60) }

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:M1 a plant:Mill ; plant:maxTorque 60 .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .

Kinds are temporal, causal, capacity, physical and other; a weight is a number above 0. A misspelt key (`# knid: capacity`) is told
here too.""",
    ),
    "FKG350": Code(
        "a query that holds for nothing",
        """No entity of the graph fits the static part of the query, or none of those that fit has a column: nothing will ever
violate it.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?m WHERE { ?m a plant:Mill ; plant:maxTorque ?max ; plant:torque ?t . FILTER(?t > ?max) }  # no mill has a maxTorque

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:M1 a plant:Mill .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .

Load the graph that has the facts, or mend the query.""",
    ),
    "FKG351": Code(
        "an aggregate that cannot be split",
        """SUM, AVG, MIN, MAX and COUNT range over observed values, in groups that the graph knows.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?t WHERE { ?m plant:torque ?t } GROUP BY ?t HAVING (COUNT(?m) > 1)  # groups depend on what is observed

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:M1 a plant:Mill ; plant:maxTorque 60 .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .

A key that is observed needs its values in the query: FILTER(?t IN (1, 2)) or VALUES. DISTINCT takes values that the graph knows. SAMPLE
and GROUP_CONCAT may be shown, but have no formula where the solutions of a group depend on the table.""",
    ),
    "FKG352": Code(
        "a query that is too large",
        """Every alternative around observed values (UNION, OPTIONAL, `|`) is checked by itself, and their number multiplies.

Write it as several queries.""",
    ),
    "FKG353": Code(
        "a query that depends on more than the data",
        """OFFSET, and LIMIT inside a sub-select, count solutions in an order, and rows of a table have none. NOW(), RAND(), UUID() and
BNODE() give another value each time, and so would the pack.

Leave them out, or write the value itself. ORDER BY and an outer LIMIT change nothing about what is violated.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?m WHERE { ?m plant:torque ?t FILTER(?t > 60) } OFFSET 1

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:M1 a plant:Mill ; plant:maxTorque 60 .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .
""",
    ),
    "FKG354": Code(
        "facts from elsewhere",
        """FROM, GRAPH and SERVICE ask for other facts than those of the one graph that is loaded.

Save what is needed as a graph file, and give that.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?m FROM <https://example.org/facts> WHERE { ?m plant:torque ?t FILTER(?t > 60) }

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:M1 a plant:Mill ; plant:maxTorque 60 .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .
""",
    ),
    "FKG355": Code(
        "a name of SELECT in HAVING",
        """HAVING is evaluated before SELECT gives names to its expressions. By the SPARQL 1.1 standard such a name has no value
there, so the condition is an error and the query finds nothing. Some stores take it for the expression, and so does fedkg.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule strong require torque <= 60 N.m
    queries "legacy.rq"

    # legacy.rq
    PREFIX plant: <https://example.org/plant#>
    SELECT ?l (MAX(?t) AS ?most) WHERE { ?l plant:has ?m . ?m plant:torque ?t } GROUP BY ?l HAVING(?most > 60)

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix fkg: <https://w3id.org/fedkg/ns#> .
    @prefix sosa: <http://www.w3.org/ns/sosa/> .
    plant:L1 plant:has plant:M1 . plant:M1 a plant:Mill .
    plant:s1 sosa:observes plant:torque ; sosa:isHostedBy plant:M1 ; fkg:column "M1.torque" .

Write HAVING(MAX(?t) > 60), which means the same everywhere.""",
    ),
    **SPARQL_NOTES,
}
"""Codes FKG340 to FKG369."""
