"""Loops of models: all local steps of a client, and recurrent cells through time."""
