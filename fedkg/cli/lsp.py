"""`fedkg lsp`: a language server for editors."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def lsp(check: Annotated[bool, typer.Option("--check", hidden=True)] = False) -> None:
    """Serve an editor over standard input and output (Language Server Protocol).

    Editors start this command themselves. It offers diagnostics, hovers, completion, definitions,
    rename, fixes, formatting, and a lens that runs an example. Rules that need graphs besides those
    they name get them from the initialization option `graphs`, a list of paths relative to the rule
    file.

    \b
    Examples:
      fedkg lsp
    """
    from fedkg import authoring

    if check:  # the server starts this process for a full check
        sys.stdout.write(authoring.check_open_file(sys.stdin.buffer.read().decode()))
        return
    authoring.serve_language()
