"""Bind a pack to tensor layouts, and turn a call's arguments into the numbers that the rules
read.
"""
