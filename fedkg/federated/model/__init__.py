"""Models whose answers obey what is known."""
