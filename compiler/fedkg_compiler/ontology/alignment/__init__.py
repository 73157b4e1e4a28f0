"""Proposals for mappings between two ontologies: from names, definitions and structure; nothing is asserted until a person accepts it.

`gather.py` reads the terms, `words.py` cuts their names into stems, `likeness.py` compares, `suggest.py` proposes, `proposals.py` writes
proposals as RDF, `accepted.py` reads those back that a person accepted.
"""
