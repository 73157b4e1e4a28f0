"""Compiled CPU loops of models: all local steps of a client, or a forward pass through time, as
machine code.
"""
