"""Records of what fedkg fetched from SPARQL endpoints for a job, for its run folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fedkg.graphs import EndpointFetch, record_fetches
from fedkg.jobs.schema.endpoint_recognition import is_address


@contextmanager
def record_endpoints(graphs: Sequence[str]) -> Iterator[list[EndpointFetch]]:
    """A list that receives a record of every endpoint that the block contacts.

    Without an address among `graphs` this does not import the compiler, so that jobs with a
    compiled pack run without it.
    """
    if any(map(is_address, graphs)):
        with record_fetches() as found:
            yield found
    else:
        yield []
