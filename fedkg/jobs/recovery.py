"""Damage to a run folder: refused, or repaired from what the rest of the folder says.

A rebuilt file is written only if its content has the logged checksum, so that a repair never changes a run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fedkg.errors import FedkgError
from fedkg.jobs.damage import REBUILDABLE, damage_error
from fedkg.jobs.folder import RESTORE_HELP, Damage, RunFolder


@dataclass(slots=True)
class Recovery:
    """The damaged files of a run that can be rebuilt.

    Attributes:
        place: the run. damaged: what is still to rebuild, by file. notes: what was rebuilt, as sentences.
    """

    folder: RunFolder
    damaged: dict[str, Damage] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def rebuild(self, name: str, source: str, content: Callable[[], bytes | str]) -> None:
        """Rebuild a file if it is damaged.

        Args:
            source: what it is rebuilt from, for people. content: computes what should be in the file.

        Raises:
            JobError: when the content is not the logged one.
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
                self.folder.path, f"{RESTORE_HELP} (it cannot be rebuilt: {error})"
            ) from error
        if not is_restored:
            raise damage.error(self.folder.path)
        self.mark_rebuilt(name, source)

    def mark_rebuilt(self, name: str, source: str) -> None:
        """Note that a damaged file is rebuilt."""
        damage = self.damaged.pop(name)
        self.notes.append(
            f"{name} was {'missing' if damage.missing else 'damaged'}: rebuilt from {source}"
        )


def recover(folder: RunFolder) -> Recovery:
    """Finish what a process that died has begun, and find what must be rebuilt.

    Raises:
        JobError: when the log is damaged, or a file that cannot be rebuilt.
    """
    cut = folder.recover()
    found = folder.damage()
    if any(damage.file not in REBUILDABLE for damage in found):
        raise damage_error(folder, found)
    return Recovery(
        folder,
        {damage.file: damage for damage in found},
        [f"{name} had lines that the run did not write: they are removed" for name in cut],
    )
