"""Comparisons of trials: intervals, differences and sentences."""
