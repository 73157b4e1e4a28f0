"""Loops of models on a processor: all steps of a client, or a run through time, in machine code of this machine."""
