"""Repair of a run folder: rebuild damaged files from the rest of the folder.

fedkg writes a rebuilt file only if its content has the logged checksum, so a repair never changes a
run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fedkg.errors import FedkgError
from fedkg.jobs.file_damage import REBUILDABLE, damage_error
from fedkg.jobs.folder import RESTORE_HELP, Damage, RunFolder


@dataclass(slots=True)
class Recovery:
    """The damaged files of a run that fedkg can rebuild.

    Attributes:
        folder: the run folder.
        damaged: files that still need rebuilding.
        notes: sentences about rebuilt files.
    """

    folder: RunFolder
    damaged: dict[str, Damage] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def rebuild(self, name: str, source: str, content: Callable[[], bytes | str]) -> None:
        """Rebuild a file if it is damaged.

        Args:
            source: description of the source, for the user.
            content: computes the content.

        Raises:
            JobError: the content differs from the logged checksum.
        """
        damage = self.damaged.get(name)
        if damage is None:
            return
        try:
            body = content()
            body = body.encode("utf-8") if isinstance(body, str) else body
            is_restored = self.folder.restore(name, body)
        except FedkgError as error:
            raise damage.error(
                self.folder.path,
                f"{RESTORE_HELP} (it cannot be rebuilt: {error.message.splitlines()[0]})",
            ) from error
        if not is_restored:
            raise damage.error(self.folder.path)
        self.mark_rebuilt(name, source)

    def mark_rebuilt(self, name: str, source: str) -> None:
        """Record that a damaged file was rebuilt."""
        damage = self.damaged.pop(name)
        self.notes.append(
            f"{name} was {'missing' if damage.missing else 'damaged'}: rebuilt from {source}"
        )


def recover(folder: RunFolder) -> Recovery:
    """Finish interrupted writes, and find the files that need rebuilding.

    Raises:
        JobError: the log, or a file that cannot be rebuilt, is damaged.
    """
    cut = folder.recover()
    found = folder.damage()
    if any(damage.file not in REBUILDABLE for damage in found):
        raise damage_error(folder, found)
    return Recovery(
        folder,
        {damage.file: damage for damage in found},
        [f"{name} had lines that the run did not write: removed" for name in cut],
    )
