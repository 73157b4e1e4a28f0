"""Kernels for the nearest points of many small polytopes."""
