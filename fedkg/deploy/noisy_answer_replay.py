"""What a site has released with noise that is never drawn again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fedkg._internal.atomic_file import replace_file
from fedkg.deploy.message import Message, read_message_file
from fedkg.deploy.signing import OWNER_ONLY
from fedkg.errors import FederationError
from fedkg.limits import parse_json, read_file

LEDGER, ANSWER = "releases.json", "release.message"
"""The digest of the request of each round, and the last answer, in the state of a site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoisyReleases:
    """Answers one request in each round, and no round beyond the budget, whatever a server asks.

    A request that comes again gets the same answer: a new one would have other noise, and the
    average of both would tell more than the ledger of the training states.

    Args:
        folder: where the site keeps what it has released.
        rounds: the rounds that its budget of privacy allows.
    """

    folder: Path
    rounds: int

    def once(self, request: Message, answer: Callable[[Message], Message]) -> Message:
        """The answer to a request, computed at most once.

        Raises:
            FederationError: the round was answered for another request, or is beyond the budget.
        """
        if not 1 <= request.round <= self.rounds:
            raise FederationError(
                "this site sends no update: its job and its privacy budget allow none in this "
                "round",
                expected=f"rounds 1 to {self.rounds}",
                received=f"round {request.round}",
                help="ask the operator of the server why the server asks for this round",
            )
        path = self.folder / LEDGER
        released = self._released(path) if path.exists() else {}
        digest = hashlib.sha256(request.to_bytes()).hexdigest()
        before = released.get(str(request.round))
        if before is not None:
            known = self._known_answer(request) if before == digest else None
            if known is None:
                raise FederationError(
                    f"this site has already released an update of round {request.round}, and a "
                    "second one would exceed its privacy budget",
                    help="nothing to do: this round ends without the site, and the site takes part "
                    "in the next one",
                )
            return known
        self._write(LEDGER, json.dumps({**released, str(request.round): digest}).encode())
        found = answer(request)
        self._write(ANSWER, found.to_bytes())
        return found

    def _released(self, path: Path) -> dict[str, str]:
        """The digests of the requests of all rounds."""
        try:
            found = parse_json(read_file(path), str(path))
            return {str(number): str(digest) for number, digest in found.items()}
        except (ValueError, AttributeError) as error:
            raise FederationError(
                f"{path} is damaged, so the site cannot know which updates it has released",
                received=str(error),
                help="restore the file from a copy",
            ) from error

    def _known_answer(self, request: Message) -> Message | None:
        """The last answer, if it is of the request's round."""
        try:
            found = read_message_file(self.folder / ANSWER, help="")
        except (OSError, FederationError):
            return None
        return found if found.round == request.round else None

    def _write(self, name: str, body: bytes) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        replace_file(self.folder / name, body, mode=OWNER_ONLY)
