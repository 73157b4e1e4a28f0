"""A pack bound to somebody's tensors: where every number stands that the rules read, and what a call hands over."""
