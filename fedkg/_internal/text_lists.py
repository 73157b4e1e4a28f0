"""Numbers of things, and lists of names, in texts."""

from __future__ import annotations


def count_noun(number: int, noun: str) -> str:
    """A number with its noun, which forms its plural with an s.

    Examples:
        >>> count_noun(1, "rule"), count_noun(2000, "rule")
        ('1 rule', '2,000 rules')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
