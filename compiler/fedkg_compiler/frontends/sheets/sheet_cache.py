"""The sheets of a compilation, each read once. The reader is imported with the first sheet."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from fedkg.errors import FedkgError
from fedkg.pack import Source
from fedkg_compiler.input_files import ABSENT, note, read_bytes

if TYPE_CHECKING:
    from fedkg.tables import Table


@dataclass(slots=True)
class Sheets:
    """Sheets that were read, by path, and where they come from."""

    tables: dict[Path, Table | FedkgError] = field(default_factory=dict)
    sources: dict[Path, Source] = field(default_factory=dict)

    def read(self, path: Path) -> Table | FedkgError:
        """The sheet, or why there is none."""
        from fedkg.tables import read_table

        place = path.resolve()
        if place not in self.tables:
            try:
                self.tables[place] = read_table(place)
                digest = hashlib.sha256(read_bytes(place)).hexdigest()
                self.sources[place] = Source(name=place.name, kind="sheet", sha256=digest)
            except FedkgError as error:
                note(place, ABSENT)
                self.tables[place] = error
            except OSError as error:
                self.tables[place] = FedkgError(
                    f"cannot read {path}",
                    received=error.strerror or str(error),
                    help="check the path, and that you may read the file",
                )
        return self.tables[place]
