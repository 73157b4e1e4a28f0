"""The documentation site of the modules: `pages.py` gathers the facts, the templates show them."""
