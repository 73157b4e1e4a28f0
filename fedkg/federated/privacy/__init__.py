"""Federations under differential privacy."""
