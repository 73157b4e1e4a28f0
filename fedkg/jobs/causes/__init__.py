"""Causal discovery jobs: `kind: causes`."""
