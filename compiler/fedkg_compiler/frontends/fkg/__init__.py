"""Rule files: syntax, and binding of names, units and quantifiers."""
