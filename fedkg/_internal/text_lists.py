"""Numbers of things, and lists of names, in texts."""

from __future__ import annotations

from collections.abc import Sequence


def list_first(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are; empty without names.

    Examples:
        >>> list_first(["a", "b", "c", "d"], 2), list_first(["a", "b"], 2)
        ('a, b and 2 more', 'a, b')
    """
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def count_noun(number: int, noun: str) -> str:
    """A number with its noun, which forms its plural with an s.

    Examples:
        >>> count_noun(1, "rule"), count_noun(2000, "rule")
        ('1 rule', '2,000 rules')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
