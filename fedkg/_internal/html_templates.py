"""The Jinja environment of HTML pages."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fedkg._internal.safe_text import escape_hidden_in
from fedkg.errors import MissingExtra

if TYPE_CHECKING:
    from jinja2 import Environment


def template_environment(folder: Path, feature: str) -> Environment:
    """An environment for the templates of a folder: values are escaped, unknown names are errors.

    Raises:
        MissingExtra: jinja2, which the feature needs, is not installed.
    """
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ModuleNotFoundError as error:
        raise MissingExtra(feature, "report") from error
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=escape_hidden_in,
        trim_blocks=True,
        lstrip_blocks=True,
    )
