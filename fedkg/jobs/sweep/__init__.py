"""Sweeps: many runs from one job file."""
