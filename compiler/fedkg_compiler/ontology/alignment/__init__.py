"""Proposals for mappings between two ontologies: from names, definitions and structure.

Nothing is asserted until a person accepts it.

`alignment_terms.py` reads the terms, `stemming.py` cuts their names into stems, `similarity.py`
compares, `suggest.py` proposes, `proposals_turtle.py` writes proposals as RDF, `accepted.py` reads
those back that a person accepted.
"""
