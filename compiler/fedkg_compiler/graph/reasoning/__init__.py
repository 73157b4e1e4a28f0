"""Reasoning over triples: OWL 2 RL over numbered nodes, justifications, contradictions, and a DL
reasoner on demand.

In the order of reading: the rules as a table of text (`table.py`), their words
(`owl_vocabulary.py`), matching them on arrays (`matching.py`), all that is known (`facts.py`), the
closure (`fixpoint.py`), contradictions (`contradiction_rules.py`), the reasons for a triple
(`proofs.py`, `justifications.py`), closures that are kept on disk (`closure_cache.py`), and HermiT
and Pellet (`hermit_reasoner.py`).
"""
