"""Why an update is missing from a round: who decided it, and what to do."""

from __future__ import annotations

from dataclasses import dataclass

NO_REPLY = "no reply before the end of the round"
NO_PROCESS = "no site process answers"
NO_ANSWER = "gave no answer"
UNANSWERED = "has not answered"
NOT_NEEDED = "not needed: enough other sites answered"
TOO_FEW = "its update is not used: too few other sites answered"
PAUSED = "is paused by its operator"
LEFT = "has left the federation"
OTHER_VERSION = "differ in their version of fedkg"
OTHER_FORMAT = "sent a message of another version"
UNCONFIRMED = "has not confirmed the new rules"
OUTLIERS = "are outliers"
UNUSABLE = "its update"

NO_SUM = "no sum: "


@dataclass(frozen=True, slots=True)
class Exclusion:
    """How to read the reason of an exclusion.

    Attributes:
        decided_by: ``site`` (its operator), ``site process`` (an error there), ``contract`` (the
            deadline or the quorum) or ``server`` (it checked the update).
        help: what to do.
        absent: whether the site did not answer at all, so that it may be lost.
    """

    decided_by: str
    help: str
    absent: bool = False


_KNOWN: tuple[tuple[str, Exclusion], ...] = (
    (NOT_NEEDED, Exclusion("contract", "nothing: the site was a spare in this round")),
    (TOO_FEW, Exclusion("contract", "see the other sites of this round")),
    (
        NO_REPLY,
        Exclusion(
            "contract",
            "`fedkg site doctor SITE` at the site, or `fedkg site run SITE` if it is not running; "
            "raise `federation.deadline` (`federation.grace` if enough others had answered) if a "
            "local round takes longer",
            absent=True,
        ),
    ),
    (NO_ANSWER, Exclusion("contract", "see the log of the site process", absent=True)),
    (UNANSWERED, Exclusion("contract", "see the log of the site process", absent=True)),
    (NO_PROCESS, Exclusion("contract", "`fedkg site run SITE` at the site", absent=True)),
    (PAUSED, Exclusion("site", "`fedkg site resume SITE` at the site", absent=True)),
    (LEFT, Exclusion("site", "remove it from the job, or invite it again", absent=True)),
    (UNCONFIRMED, Exclusion("site", "`fedkg site confirm SITE` at the site")),
    *(
        (
            text,
            Exclusion(
                "site process",
                "install the server's version of fedkg at the site, then `fedkg site run SITE`",
            ),
        )
        for text in (OTHER_VERSION, OTHER_FORMAT)
    ),
    (
        OUTLIERS,
        Exclusion("server", "check the site's units, labels and sensors, or raise the threshold"),
    ),
    (UNUSABLE, Exclusion("server", "check the site's data and its learning rate")),
    (NO_SUM, Exclusion("contract", "secure aggregation needs more sites in a round")),
)


def is_transient(reason: str) -> bool:
    """Whether the site itself has not answered, so that another try may help; what a site reports
    follows from the request and would be the same again.
    """
    return any(text in reason for text in (NO_PROCESS, NO_ANSWER, UNANSWERED))


def is_unusable(reason: str) -> bool:
    """Whether the site sent an update that the server cannot use, such as one with NaN."""
    return UNUSABLE in reason and TOO_FEW not in reason


def explain_exclusion(reason: str) -> Exclusion:
    """How to read the reason of an exclusion; an unknown one is an error of the site process."""
    for text, found in _KNOWN:
        if text in reason:
            return found
    return Exclusion("site process", "the message is the site's; `fedkg site doctor SITE` there")
