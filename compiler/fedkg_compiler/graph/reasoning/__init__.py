"""Reasoning over triples: OWL 2 RL over numbered nodes, justifications, contradictions, and a DL
reasoner on demand.

In the order of reading: the rules as a table of text (`rule_table.py`), their words
(`owl_vocabulary.py`), all that is known (`facts.py`), the closure of a graph, its contradictions
and the closures on disk (`graph/owl_rl_closure.py`), the reasons for a triple (`proofs.py`,
`justifications.py`), and HermiT and Pellet (`hermit_reasoner.py`).
"""
