"""`fedkg sign`: sign a pack, or a folder with all its files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fedkg.cli.console import print_line


def sign(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="A pack, or the folder of a federation.")
    ],
    key: Annotated[
        Path, typer.Option("--key", metavar="NAME.key", help="The private key that signs.")
    ],
    new_key: Annotated[
        bool,
        typer.Option("--new-key", help="Create this key and its public part, NAME.pub, first."),
    ] = False,
) -> None:
    """Sign a pack, or a folder with all its files, so that sites can tell who wrote them.

    The signature is `signature.json` in the folder, or PATH.signature.json beside a file. `fedkg
    verify PATH --key NAME.pub` compares both.

    \b
    Example:
      fedkg sign rules.fkgpack --key keys/signing.key --new-key
    """
    from fedkg.deploy.signing import create_key, sign_folder

    if new_key:
        key = create_key(key.parent, key.stem)
    print_line(f"signed: {sign_folder(path, key)}; public key: {key.with_suffix('.pub')}")
