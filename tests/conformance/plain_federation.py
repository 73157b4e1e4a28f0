"""The conformance kit under the name that the tests import."""

from fedkg.federated.conformance import *  # noqa: F403
