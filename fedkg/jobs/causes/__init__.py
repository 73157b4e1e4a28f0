"""Jobs that learn who drives whom: `kind: causes`."""
