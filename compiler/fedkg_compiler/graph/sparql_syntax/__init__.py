"""The text of SPARQL queries and patterns: words, syntax tree, and the tree as text again."""
