"""What a simulation adds to honest sites: attacks."""

from __future__ import annotations

from collections import Counter
from typing import Literal, Self

from pydantic import Field, model_validator

from fedkg.algorithm_compatibility import ATTACKS, AttackKind, count_attackers
from fedkg.algorithm_compatibility import Attacks as Changes
from fedkg.jobs.schema.section_base import Count, Positive, Section, Share

DEFAULT_SHARE = 0.2


class Attacks(Section):
    """Sites that send something else than honest updates."""

    kind: Literal["none"] | AttackKind = Field(
        default="none",
        description=(
            "`flipped_labels` and `constant_label` (the last class) change the labels of the "
            "attackers; `scaled_update` and `sign_flipped_update` their updates; `replayed_update` "
            "sends the update of an earlier round; `nan_update` sends NaN; `constant_model` a "
            "model that always answers the last class or a large number; `rule_satisfying_model` "
            "the constant model that satisfies most rules on the probe; `inflated_score` claims "
            "to satisfy all rules, with `scoring.at: sites`."
        ),
    )
    share: Share = Field(
        default=DEFAULT_SHARE, description="Share of the sites that attack; the seed chooses them."
    )
    sites: tuple[str, ...] = Field(
        default=(), description="Names of the attackers, instead of `share`."
    )
    first_round: Count = Field(default=1, description="First round of the attack.")
    factor: Positive | None = Field(
        default=None,
        description="Factor of what an attacker sends; empty: 10 for `scaled_update`, otherwise 1.",
    )

    @model_validator(mode="after")
    def _by_share_or_name(self) -> Self:
        if self.sites and self.share != DEFAULT_SHARE:
            raise ValueError("`share` and `sites` exclude each other; give one of them")
        twice = next((site for site, count in Counter(self.sites).items() if count > 1), None)
        if twice is not None:
            raise ValueError(f"`sites` lists the site {twice!r} twice")
        return self

    def count(self, sites: int) -> int:
        """The number of attackers among these sites; 0 without an attack."""
        if self.kind == "none":
            return 0
        return len(self.sites) or count_attackers(self.share, sites)

    @property
    def changes(self) -> Changes:
        """What the attackers change."""
        return (
            "none" if self.kind == "none" or not (self.share or self.sites) else ATTACKS[self.kind]
        )


class Simulation(Section):
    """What a simulation adds to honest sites."""

    attacks: Attacks = Field(default_factory=Attacks, description="Sites that attack the training.")
