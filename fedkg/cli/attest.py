"""`fedkg attest`: sign a statement about a run."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from fedkg.cli.console import print_line
from fedkg.errors import MissingExtra


def attest(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a finished run.")],
    key: Annotated[
        Path, typer.Option("--key", metavar="NAME.key", help="The private key that signs.")
    ],
) -> None:
    """Sign a statement that links the rules of a run to its pack, its files and its models.

    It is `attestation.json` in the folder. `fedkg verify RUN --key NAME.pub` compares both and
    names every broken link.

    \b
    Example:
      fedkg attest runs/tuesday --key keys/signing.key
    """
    if any(find_spec(name) is None for name in ("torch", "yaml")):
        raise MissingExtra("reading run folders", "run")
    from fedkg.deploy.run_attestation import attest as write

    print_line(f"attested: {write(run, key)}")
