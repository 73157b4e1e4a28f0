"""Reasoning over triples: OWL 2 RL over numbered nodes, justifications, contradictions, and a DL
reasoner on demand.

In the order of reading: the rules as a table of text (`rule_table.py`), their words
(`owl_vocabulary.py`), all that is known (`facts.py`), the closure and contradictions
(`fixpoint.py`), the reasons for a triple (`proofs.py`, `justifications.py`), and HermiT and Pellet
(`hermit_reasoner.py`). `graph/closure.py` closes a graph, and keeps closures on disk.
"""
