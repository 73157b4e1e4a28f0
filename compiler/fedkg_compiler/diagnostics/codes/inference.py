"""Codes of what follows from graphs and ontologies (FKG125 to FKG129)."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

INFERENCE: dict[str, Code] = {
    "FKG125": Code(
        "a contradiction in the graph",
        """What the graphs and ontologies say cannot all be so: something is of two classes that have no common member, two names of
one thing are said to be different, a property leads where it must not. The statements that bring it about are shown, each
with its file and line; from any fewer of them it would not follow. The name of the rule is that of OWL 2 RL.

    use mason
    signal torque in N.m
    rule strong require torque <= 60 N.m

    # plant.ttl
    @prefix plant: <https://example.org/plant#> .
    @prefix owl: <http://www.w3.org/2002/07/owl#> .
    plant:Mill owl:disjointWith plant:Robot .
    plant:M07 a plant:Mill , plant:Robot .

Everything is loaded all the same, and nothing is concluded from the contradiction itself. Take back the statement that is
wrong. `fedkg ontology reason FILES` says the same of ontologies alone.""",
    ),
    "FKG126": Code(
        "the DL reasoner cannot run",
        """`fedkg ontology reason --dl` runs HermiT, which is written in Java, and there is no Java here, or it broke off.

    fedkg ontology reason plant.owl --dl

Install Java 11 or newer (`apt install default-jre-headless`), so that `java -version` answers. Without --dl the same
command reasons with OWL 2 RL, which needs nothing.""",
    ),
    "FKG127": Code(
        "the DL reasoner takes too long",
        """The time that was given with --limit is over; the reasoner was stopped. Reasoning with class expressions can take any time.

    fedkg ontology reason plant.owl --dl --limit 10

Give more time, or fewer files: what the question does not need makes it slower.""",
    ),
}
"""Codes FKG125 to FKG129."""
