"""Stores of a user's graph: a file that is read into memory, a store on disk, a SPARQL endpoint.

Each gives a `Document`.
"""
