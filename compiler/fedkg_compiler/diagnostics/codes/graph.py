"""Codes of quantifiers: patterns that ask the graph (FKG150 to FKG169), then sheets and columns (FKG170 to FKG199)."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

GRAPH: dict[str, Code] = {
    "FKG150": Code(
        "a pattern that is not SPARQL",
        """What stands in braces after `where` is a group graph pattern of SPARQL 1.1: triples, FILTER, OPTIONAL, UNION, MINUS,
BIND. At this place something else stands.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule r for ?m, ?l where { ?m a plant:Mill
                             ?m plant:limit ?l }  # a `.` is missing before the second triple
      require torque <= ?l

Triples end with `.`; `;` goes on with the same subject, `,` with the same subject and property. Conditions are
written FILTER(...).""",
    ),
    "FKG151": Code(
        "a variable that its pattern does not have",
        """Each variable after `for` takes its values from the pattern, so it must occur in it.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule r for ?machine, ?limit where { ?machine plant:limits ?limits } require torque <= ?limit  # did you mean ?limits?
""",
    ),
    "FKG152": Code(
        "a pattern that asks another server",
        """SERVICE would ask a server elsewhere while rules are compiled. A pack must depend on the given files alone.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule r for ?x where { SERVICE <https://example.org/sparql> { ?m plant:limit ?x } } require torque <= ?x

Save what you need as a graph file, and give that.""",
    ),
    "FKG153": Code(
        "a pattern that changes by itself",
        """NOW(), RAND(), UUID() and STRUUID() give another value each time, and so would the pack.

    prefix plant: <https://example.org/plant#>
    signal torque in N.m
    rule r for ?x where { ?m plant:limit ?x ; plant:checked ?when FILTER(?when < NOW()) } require torque <= ?x

Write the date into the pattern, or into the graph.""",
    ),
    "FKG154": Code(
        "a pattern that cannot be answered",
        """The pattern is right, but the graph cannot answer it: it is too large, or uses something that is not supported.

Make it smaller, or write it as several rules.""",
    ),
}
"""Codes FKG150 to FKG199."""
