"""Codes of graphs that stand in stores and behind endpoints (FKG140 to FKG149)."""

from __future__ import annotations

from fedkg_compiler.diagnostics.codes.code import Code

STORES: dict[str, Code] = {
    "FKG140": Code(
        "an endpoint that cannot be asked",
        """The SPARQL endpoint that was named as a graph is not reached, refuses the question, or went away while it was asked.
What may pass (no connection, time-outs, the answers 429, 500, 502, 503 and 504) was tried five times before this is said.

    fedkg check rules.fkg https://graphs.example.org/query

Look at the address: it is that of the query service, which often ends with /query or /sparql. A graph that has a name is
chosen with `?default-graph-uri=IRI` behind the address.""",
    ),
    "FKG141": Code(
        "an endpoint that answers something else",
        """The address answers, but not with SPARQL results: a web page, half an answer, fewer rows than it counts, or other rows each
time because the graph is being written. Nothing is compiled from a part of a graph.

    fedkg check rules.fkg https://graphs.example.org/

Give the address of the query service instead of its page for people, and ask while nobody writes.""",
    ),
    "FKG142": Code(
        "an endpoint that wants to know who asks",
        """The endpoint answers 401 or 403, or the header for it cannot be sent: over http:// others would read it, and what stands on
the command line is seen by everybody on the machine.

    fedkg check rules.fkg https://name:password@graphs.example.org/query

Put the value of the header Authorization into the environment variable FEDKG_SPARQL_AUTHORIZATION, or name a TOML file in
FEDKG_SPARQL_CREDENTIALS with lines such as "https://graphs.example.org/query" = "Bearer ...".""",
    ),
    "FKG143": Code(
        "a store that cannot be read",
        """The store on disk is empty or damaged: a part is missing, or is not what was written.

    fedkg check rules.fkg plant.store

Load its files into a new store: fedkg graph load NEW FILES...""",
    ),
    "FKG144": Code(
        "a load that was broken off",
        """`fedkg graph load` was killed before it ended. Nothing of what it was loading is in the store; everything that was there before
is whole, and is used.

    fedkg check rules.fkg plant.store

Load the files again.""",
    ),
}
"""Codes FKG140 to FKG149."""
