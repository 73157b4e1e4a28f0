"""Formulas over tensors: robustness, and what is missing, of all rows of a bank at once."""
