"""Loops that evaluate formulas on batches, with penalties and gradients."""
