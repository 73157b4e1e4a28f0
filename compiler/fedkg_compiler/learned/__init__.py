"""Findings of runs in the knowledge graph: written with their origin, read again, and proposed as
rules.
"""
