"""Kernels that count the rules which clients' answers satisfy, in sets of one bit per client."""
