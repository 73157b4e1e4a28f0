"""Secure aggregation: the server learns the weighted sum of the sites' updates, and no update.

The protocol is that of Bonawitz and others, "Practical secure aggregation for privacy-preserving
machine learning" (CCS 2017), figure 4, against a server that follows it. Each site adds two kinds
of masks to its update: one for every other site, which that site subtracts, and one of its own. The
seeds of all masks are secret-shared among the sites, so that any `threshold` of them can remove the
masks of sites that dropped out. Four exchanges make a round:

    keys    every site makes two key pairs                  -> public keys
    shares  the sites share their seeds                     -> encrypted shares
    update  the sites train                                 -> masked updates
    reveal  the server says whose masked updates it has     -> shares that remove the masks

A site never reveals both seeds of another one, and answers each exchange of a round once: from
different questions, a server could put both together. With a threshold above half of the sites, it
cannot get both from different sites either, unless sites help it. A server that deviates further
is not stopped: it can invent sites, as nobody vouches for keys, or ask one site alone in a round,
within its threshold. The sum itself is not protected: combine it with differential privacy.

Flower's Shamir sharing and key agreement are used. Its generator of masks is not: it reduces every
seed to 32 bits, which can be guessed. Masks here are a ChaCha20 key stream.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedkg.deploy.message import Message
from fedkg.deploy.transport import Transport
from fedkg.errors import FederationError, JobError, MissingExtra
from fedkg.exclusion_reasons import NO_SUM
from fedkg.models.model_protocols import Params

SECURE = "secure"
"""The field of a message that says to which exchange it belongs; its kind is that of the round."""

KEYS, SHARES, UPDATE, REVEAL = STAGES = ("keys", "shares", "update", "reveal")
"""The exchanges, in their order."""

LONGEST_SHARES = {KEYS: 0.2, SHARES: 0.2, UPDATE: 0.9, REVEAL: 1.0}
"""The share of the round's remaining time that each exchange may take: a silent site must leave
time for the exchanges that follow. Sites train in one exchange; the others take milliseconds."""

MASKED = "masked"
"""The tensor of a masked update, int32 [P + 1]; its last number counts clipped numbers."""

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError)
"""What parts of messages of another form raise."""

LARGEST_NUMBER = 8.0
"""The limit of the numbers of updates in trainings: far above usual ones, and fine enough for them:
with 100 sites an update is rounded to multiples of 4e-7."""

FEWEST_SITES = 3
"""The fewest sites in a sum: in a sum of two updates, each of both sites can subtract its own."""

Answer = TypeVar("Answer")

Ring = NDArray[np.uint32]
"""Whole numbers modulo 2^32, in which masks cancel."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SecureSum:
    """What the server learns from a round.

    Attributes:
        total: the sum over `sites` of their weighted updates, by name, float64; None if too few
            sites remained.
        sites: the sites in the sum.
        failed: the other sites with the reasons; if there is no sum, all of them.
        clipped: how many numbers of all updates together exceeded the limit.
    """

    total: Params | None
    sites: tuple[str, ...]
    failed: Mapping[str, str]
    clipped: int = 0


def quantisation_bound(limit: float, cohort: int, sites: int) -> float:
    """The largest difference of a number in the sum of `sites` updates from the exact sum.

    Each update is rounded to a multiple of ``limit / levels``, so it is off by at most half of
    that. Updates beyond the limit are off by more; `SecureSum.clipped` counts these numbers.

    Args:
        limit: the largest size of a number in an update.
        cohort: the sites that were asked first; the levels follow from their number.
        sites: the sites in the sum.
    """
    return 0.5 * sites * limit / _levels(cohort)


def default_threshold(cohort: int) -> int:
    """Two thirds of the sites, rounded up, and at least `FEWEST_SITES`: as many must remain to the
    end of a round.
    """
    return max(FEWEST_SITES, -(-2 * cohort // 3))


def check_threshold(threshold: int, cohort: int) -> None:
    """Raises JobError if a threshold of so many sites protects nothing or cannot be reached."""
    if not (FEWEST_SITES <= threshold <= cohort and 2 * threshold > cohort):
        raise JobError(
            "the threshold of secure aggregation, the sites that must answer, does not fit the "
            "round",
            expected=f"more than half of the {cohort} sites, at least {FEWEST_SITES}, and at most "
            f"{cohort}",
            received=str(threshold),
            help="let more sites take part in each round; with a lower threshold, a server could "
            "ask two groups of sites and learn single updates",
        )


def aggregate_securely(
    transport: Transport,
    requests: Mapping[str, Message],
    weights: Mapping[str, float],
    like: Params,
    *,
    limit: float,
    threshold: int,
    seconds: float,
    participants: int | None = None,
) -> SecureSum:
    """Ask sites for their updates, and learn only their weighted sum.

    Args:
        requests: what each site gets to compute its update; all of one kind and round.
        weights: the factor of each update, above 0 and at most 1; the sites see it.
        like: tensors with the names and shapes of an update.
        limit: the largest size of a number in an update; larger ones are clipped.
        threshold: the sites that must remain to the end.
        seconds: how long the four exchanges may take together; see `LONGEST_SHARES`.
        participants: how many of the sites take part, the others are spares; None: all.

    Raises:
        JobError: the threshold does not fit the number of sites.
        MissingExtra: Flower is not installed.
    """
    check_threshold(threshold, participants or len(requests))
    first = next(iter(requests.values()))
    end = time.monotonic() + seconds
    server = _Server(transport=transport, kind=first.kind, number=first.round, end=end)
    size = sum(value.numel() for value in like.values()) + 1

    keys = server.ask(KEYS, {site: {} for site in requests}, _read_keys)
    if len(keys) < threshold:
        return server.give_up(KEYS, keys, threshold)
    threshold = max(threshold, len(keys) // 2 + 1)  # sites accept only more than half of the keys
    published = {site: list(own) for site, own in keys.items()}
    shares = server.ask(
        SHARES,
        {site: {"keys": published, "threshold": threshold} for site in keys},
        lambda message: _read_texts(message.fields["shares"], keys),
    )
    if len(shares) < threshold:
        return server.give_up(SHARES, shares, threshold)
    masked = server.ask(
        UPDATE,
        {
            site: {
                "shares": {other: own[site] for other, own in shares.items()},
                "weight": weights[site],
                "limit": limit,
                "request": dict(requests[site].fields),
            }
            for site in shares
        },
        lambda message: _read_masked(message, size),
        {site: requests[site].tensors for site in shares},
    )
    if len(masked) < threshold:
        return server.give_up(UPDATE, masked, threshold)
    left = sorted(shares.keys() - masked.keys())
    revealed = server.ask(
        REVEAL,
        {site: {"sites": sorted(masked)} for site in masked},
        lambda message: {
            "own": _read_texts(message.fields["own"], masked),
            "pair": _read_texts(message.fields["pair"], left),
        },
    )
    if len(revealed) < threshold:
        return server.give_up(REVEAL, revealed, threshold)
    total = np.zeros(size, dtype=np.uint32)
    try:
        for site in sorted(masked):
            seed = _combine([answer["own"][site] for answer in revealed.values()])
            total += masked[site] - _mask(seed, size)
        for site in left:
            secret = _combine([answer["pair"][site] for answer in revealed.values()])
            for other in masked:
                sign = _sign(other, site)
                total -= sign * _mask(_agree(secret, keys[other][1]), size)
    except (ValueError, ArithmeticError, LookupError, TypeError) as error:
        why = f"a site revealed shares that do not fit ({type(error).__name__})"
        server.failed.update(dict.fromkeys(masked, why))
        return server.give_up(REVEAL, [], threshold)
    levels = _levels(len(keys))
    numbers = torch.from_numpy(total.view(np.int32).astype(np.float64))
    names = sorted(like)
    parts = torch.split(numbers[:-1] * (limit / levels), [like[name].numel() for name in names])
    summed = dict(zip(names, parts, strict=True))
    return SecureSum(
        total={name: summed[name].view(value.shape) for name, value in like.items()},
        sites=tuple(sorted(masked)),
        failed={site: why for site, why in server.failed.items() if site not in masked},
        clipped=int(numbers[-1]),
    )


class SecureSite:
    """A site's side of secure aggregation.

    Args:
        name: the site's name.
        compute_update: the update of a request, by name; a `FedkgError` leaves the site out.
    """

    def __init__(self, name: str, compute_update: Callable[[Message], Params]) -> None:
        self.name, self._compute_update = name, compute_update
        self._session = _Session(id="")

    def answer(self, request: Message) -> Message:
        """The answer to a request of one of the `STAGES`.

        The same request again has the same answer.

        Raises:
            FederationError: the request does not follow the protocol.
        """
        try:
            session, stage = str(request.fields["session"]), str(request.fields[SECURE])
            if stage == KEYS and session != self._session.id:
                self._session = _Session(id=session)
            if session != self._session.id:
                raise self._refuse("a request of another round")
            digest = hashlib.sha256(request.to_bytes()).hexdigest()
            asked, answer = self._session.answers.get(stage, (digest, None))
            if asked != digest:
                raise self._refuse("a second, different request in one round")
            if answer is None:
                step = {
                    KEYS: self._make_keys,
                    SHARES: self._share_seeds,
                    UPDATE: self._mask_update,
                    REVEAL: self._reveal_shares,
                }[stage]
                fields, tensors = step(request)
                answer = Message(
                    kind=request.kind,
                    round=request.round,
                    fields={**fields, SECURE: stage, "session": session},
                    tensors=tensors,
                )
                self._session.answers[stage] = digest, answer
            return answer
        except UNREADABLE as error:
            raise self._refuse(f"{type(error).__name__}: {error}") from error

    def _make_keys(self, request: Message) -> tuple[dict[str, Any], Params]:
        found = self._session
        return {"keys": [_public_text(found.cipher), _public_text(found.pair)]}, {}

    def _share_seeds(self, request: Message) -> tuple[dict[str, Any], Params]:
        found, library = self._session, _library()
        keys, threshold = dict(request.fields["keys"]), int(request.fields["threshold"])
        try:
            check_threshold(threshold, len(keys))
        except JobError as error:
            raise self._refuse(str(error)) from error
        if keys.get(self.name) != [_public_text(found.cipher), _public_text(found.pair)]:
            raise self._refuse("other keys than this site has sent")
        if len({text for pair in keys.values() for text in pair}) < 2 * len(keys):
            raise self._refuse("the same key for two sites")
        found.keys, found.threshold = keys, threshold
        order = sorted(keys)
        own = library.create_shares(found.seed, threshold, len(order))
        pair = library.create_shares(_secret_bytes(found.pair), threshold, len(order))
        texts: dict[str, str] = {}
        for site, one, two in zip(order, own, pair, strict=True):
            text = json.dumps({"from": self.name, "to": site, "own": one.hex(), "pair": two.hex()})
            key = library.generate_shared_key(found.cipher, _public_key(keys[site][0]))
            texts[site] = library.encrypt(key, text.encode()).decode()
        return {"shares": texts}, {}

    def _mask_update(self, request: Message) -> tuple[dict[str, Any], Params]:
        found, library = self._session, _library()
        texts = dict(request.fields["shares"])
        if not (len(texts) >= found.threshold > 0 and texts.keys() <= found.keys.keys()):
            raise self._refuse(f"shares of {len(texts)} sites, which are too few or unknown")
        if self.name not in texts:
            raise self._refuse("shares without that of this site")
        for site, text in texts.items():
            key = library.generate_shared_key(found.cipher, _public_key(found.keys[site][0]))
            try:
                share = json.loads(library.decrypt(key, text.encode()))
            except ValueError as error:
                raise self._refuse(f"a share from {site} that this site cannot decrypt") from error
            if (share["from"], share["to"]) != (site, self.name):
                raise self._refuse(f"a share from {site} for another site")
            found.shares[site] = str(share["own"]), str(share["pair"])
        weight, limit = float(request.fields["weight"]), float(request.fields["limit"])
        if not (0 < weight <= 1 and 0 < limit < float("inf")):
            raise self._refuse(f"weight {weight} and limit {limit}, which are out of range")
        update = self._compute_update(replace(request, fields=dict(request.fields["request"])))
        flat = torch.cat([update[name].detach().double().flatten() for name in sorted(update)])
        numbers = flat.numpy()
        if not np.isfinite(numbers).all():
            raise FederationError(
                f"the update of site {self.name} contains a number that is not finite",
                help="lower the learning rate, or see the data of this site",
            )
        masked = _quantise(numbers * weight, limit, _levels(len(found.keys)))
        masked += _mask(found.seed, len(masked))
        for site in found.shares:
            if site != self.name:
                seed = _agree(_secret_bytes(found.pair), found.keys[site][1])
                masked += _sign(self.name, site) * _mask(seed, len(masked))
        return {}, {MASKED: torch.from_numpy(masked.view(np.int32))}

    def _reveal_shares(self, request: Message) -> tuple[dict[str, Any], Params]:
        found, sites = self._session, set(request.fields["sites"])
        if UPDATE not in found.answers:
            raise self._refuse("a request for shares before this site has sent an update")
        if not (len(sites) >= found.threshold and sites <= found.shares.keys()):
            raise self._refuse(f"the names of {len(sites)} sites, which are too few or unknown")
        return {
            "own": {site: found.shares[site][0] for site in sorted(sites)},
            "pair": {site: found.shares[site][1] for site in sorted(found.shares.keys() - sites)},
        }, {}

    def _refuse(self, reason: str) -> FederationError:
        return FederationError(
            f"site {self.name} rejects a request of the server for secure aggregation",
            received=reason,
            help="this round ends without the site; if all rounds do, ask the operator of the "
            "server",
        )


@dataclass(slots=True, kw_only=True, eq=False)
class _Session:
    """What a site remembers of one round. Its secrets never leave the process.

    Attributes:
        answers: for each stage the digest of the request, and the answer.
        cipher: the key that encrypts shares.
        pair: the key from which masks with other sites follow.
        seed: of the site's own mask.
        keys: both public keys of each site.
        shares: of each site, of its `seed` and its `pair`.
    """

    id: str
    answers: dict[str, tuple[str, Message]] = field(default_factory=dict)
    cipher: Any = field(default_factory=lambda: _new_key())
    pair: Any = field(default_factory=lambda: _new_key())
    seed: bytes = field(default_factory=lambda: secrets.token_bytes(32))
    keys: dict[str, list[str]] = field(default_factory=dict)
    threshold: int = 0
    shares: dict[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True, eq=False)
class _Server:
    """Asks sites, and remembers why some did not answer."""

    transport: Transport
    kind: str
    number: int
    end: float
    session: str = field(default_factory=lambda: secrets.token_hex(16))
    failed: dict[str, str] = field(default_factory=dict)

    def ask(
        self,
        stage: str,
        fields: Mapping[str, Mapping[str, Any]],
        read: Callable[[Message], Answer],
        tensors: Mapping[str, Mapping[str, Tensor]] | None = None,
    ) -> dict[str, Answer]:
        """The answers of sites, sorted by name; `failed` gets the reasons of the others."""
        requests = {
            site: Message(
                kind=self.kind,
                round=self.number,
                fields={**own, SECURE: stage, "session": self.session},
                tensors={} if tensors is None else tensors[site],
            )
            for site, own in fields.items()
        }
        found: dict[str, Answer] = {}
        seconds = max(0.0, self.end - time.monotonic()) * LONGEST_SHARES[stage]
        for reply in self.transport.exchange(requests, seconds=seconds):
            if reply.site not in requests:
                continue
            if reply.message is None:
                self.failed[reply.site] = reply.error
            elif (stage, self.session) == tuple(
                reply.message.fields.get(name) for name in (SECURE, "session")
            ):
                try:
                    found[reply.site] = read(reply.message)
                except UNREADABLE as error:
                    self.failed[reply.site] = f"unusable answer: {type(error).__name__}: {error}"
        for site in requests.keys() - found.keys():
            self.failed.setdefault(site, f"no answer within {seconds:.3g} s")
        return dict(sorted(found.items()))

    def give_up(self, stage: str, found: Collection[str], threshold: int) -> SecureSum:
        """No sum, because too few sites answered."""
        why = f"{NO_SUM}{len(found)} sites sent {stage}, and {threshold} are needed"
        reasons = {site: f"{own}; {why}" for site, own in self.failed.items()}
        return SecureSum(total=None, sites=(), failed={**dict.fromkeys(found, why), **reasons})


def _levels(cohort: int) -> int:
    """The largest whole number of an update: the sum of as many cannot exceed 31 bits."""
    return ((1 << 31) - 1) // cohort


def _quantise(values: NDArray[np.float64], limit: float, levels: int) -> Ring:
    """Numbers as multiples of ``limit / levels``, and how many of them were clipped."""
    clipped = min(levels, int((np.abs(values) > limit).sum()))
    whole = np.rint(np.clip(values / limit, -1.0, 1.0) * levels)
    return np.append(whole, clipped).astype(np.int64).astype(np.uint32)


def _mask(seed: bytes, count: int) -> Ring:
    """The mask of a seed: a ChaCha20 key stream. Each seed serves one round, so the nonce is 0."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

    stream = Cipher(algorithms.ChaCha20(seed, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(4 * count)), dtype="<u4").astype(np.uint32)


def _sign(site: str, other: str) -> np.uint32:
    """1 for the site that adds the common mask of both, -1 (modulo 2^32) for the other."""
    return np.uint32(1 if site < other else 0xFFFFFFFF)


def _combine(shares: list[str]) -> bytes:
    """The secret of shares in hexadecimal digits."""
    found: bytes = _library().combine_shares([bytes.fromhex(share) for share in shares])
    return found


def _agree(secret: bytes, public: str) -> bytes:
    """The common seed of two sites."""
    from cryptography.hazmat.primitives.asymmetric import ec

    private = ec.derive_private_key(int.from_bytes(secret, "big"), ec.SECP256R1())
    return base64.urlsafe_b64decode(_library().generate_shared_key(private, _public_key(public)))


def _new_key() -> Any:
    _library()
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _secret_bytes(key: Any) -> bytes:
    found: bytes = key.private_numbers().private_value.to_bytes(32, "big")
    return found


def _public_text(key: Any) -> str:
    """The public part of a key, as a compressed point in hexadecimal digits (SEC 1)."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    found: bytes = key.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    return found.hex()


def _public_key(text: str) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), bytes.fromhex(text))


def _read_keys(message: Message) -> tuple[str, str]:
    one, two = message.fields["keys"]
    for text in (one, two):
        _public_key(text)
    return str(one), str(two)


def _read_texts(value: Any, sites: Collection[str]) -> dict[str, str]:
    """A text for each of these sites. `Any`: JSON."""
    if not isinstance(value, dict) or set(value) != set(sites):
        raise ValueError("a list of other sites than those of the round")
    return {site: str(text) for site, text in value.items()}


def _read_masked(message: Message, size: int) -> Ring:
    value = message.tensors[MASKED]
    if value.shape != (size,) or value.dtype != torch.int32:
        raise ValueError(f"{list(value.shape)} of {value.dtype} instead of [{size}] of int32")
    return value.numpy().view(np.uint32)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Library:
    """What is used of Flower; the functions are not part of its documented interface."""

    create_shares: Callable[[bytes, int, int], list[bytes]]
    combine_shares: Callable[[list[bytes]], bytes]
    generate_shared_key: Callable[[Any, Any], bytes]
    encrypt: Callable[[bytes, bytes], bytes]
    decrypt: Callable[[bytes, bytes], bytes]


def _library() -> _Library:
    """Raises MissingExtra if Flower is not installed."""
    try:
        from cryptography.fernet import InvalidToken
        from flwr.common.secure_aggregation.crypto import shamir, symmetric_encryption
    except ModuleNotFoundError as error:
        raise MissingExtra("secure aggregation", "flower") from error

    def _decrypt(key: bytes, text: bytes) -> bytes:
        try:
            return symmetric_encryption.decrypt(key, text)
        except InvalidToken as error:
            raise ValueError("a share that was not encrypted for this site") from error

    return _Library(
        create_shares=shamir.create_shares,
        combine_shares=shamir.combine_shares,
        generate_shared_key=symmetric_encryption.generate_shared_key,
        encrypt=symmetric_encryption.encrypt,
        decrypt=_decrypt,
    )
