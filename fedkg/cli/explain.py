"""`fedkg explain CODE`: the page behind a diagnostic's code."""

from __future__ import annotations

from typing import Annotated

import typer

from fedkg.cli.screen import AsJson, print_json, say
from fedkg.errors import UsageError


def explain(
    code: Annotated[str, typer.Argument(metavar="CODE", help="A code from a message, such as FKG012.")] = "",
    every: Annotated[bool, typer.Option("--list", help="List all codes with their titles.")] = False,
    as_json: AsJson = False,
) -> None:
    """Say what a message's code means, with an example that fails and how to mend it.

    \b
    Examples:
      fedkg explain FKG012
      fedkg explain --list
    """
    from fedkg import authoring

    if every:
        titles = authoring.codes()
        if as_json:
            print_json({"codes": [{"code": key, "title": title} for key, title in titles.items()]})
        else:
            say("\n".join(f"{key}  {title}" for key, title in titles.items()))
        return
    if not code:
        raise UsageError("which code?", help="fedkg explain FKG012, or fedkg explain --list")
    title, page = authoring.explain(code)
    if as_json:
        print_json({"code": code.strip().upper(), "title": title, "page": page})
    else:
        say(f"{code.strip().upper()}: {title}\n\n{page.strip()}")
