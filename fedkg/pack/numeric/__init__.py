"""NumPy operations from which the definitions of the formula nodes are built."""
