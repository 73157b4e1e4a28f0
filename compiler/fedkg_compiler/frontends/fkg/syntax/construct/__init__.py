"""From the parser's tree of a statement to the typed nodes of `syntax/tree`."""
