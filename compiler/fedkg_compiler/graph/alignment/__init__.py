"""Mappings between two ontologies, and proposals for them from names, definitions and structure.

A proposal asserts nothing until a person accepts it.

`ontology_term_reader.py` reads the terms, `stemming.py` cuts their names into stems,
`similarity.py` compares, `suggest.py` proposes, `proposals_turtle.py` writes proposals as RDF,
`mappings.py` reads those back that a person accepted.

Mappings proper are SSSOM files, read by `sources/sssom.py`: `mappings.py` adds what follows from
exact ones, and `b2mml_mapping_rules.py` maps the names of B2MML by rule.
"""
