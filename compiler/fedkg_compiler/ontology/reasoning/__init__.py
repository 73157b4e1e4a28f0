"""What follows from the triples: OWL 2 RL over numbered nodes, why it follows, what contradicts itself, and a DL reasoner on demand.

In the order of reading: the rules as a table of text (`table.py`), their words (`words.py`), matching them on arrays (`matching.py`), all
that is known (`facts.py`), the closure (`closing.py`), contradictions (`clashes.py`), the reasons for a triple (`proving.py`, `why.py`),
closures that are kept on disk (`kept.py`), and HermiT and Pellet (`dl.py`).
"""
