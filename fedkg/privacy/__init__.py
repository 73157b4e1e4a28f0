"""What a release of data costs in privacy: mechanisms, accountants that compose them, and a ledger
for each unit that is protected.
"""

from fedkg.privacy.accountants import (
    ACCOUNTANTS,
    AccountantName,
    epsilon_at_most,
    epsilon_of,
    noise_for,
)
from fedkg.privacy.ledger import Entry, Gaussian, Ledger, Randomness, Spent

__all__ = [
    "ACCOUNTANTS",
    "AccountantName",
    "Entry",
    "Gaussian",
    "Ledger",
    "Randomness",
    "Spent",
    "epsilon_at_most",
    "epsilon_of",
    "noise_for",
]
