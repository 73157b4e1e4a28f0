"""Gives written rules their meaning: names, entities, units, types; its result are bound rows of
typed formulas.
"""
