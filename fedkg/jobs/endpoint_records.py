"""What the endpoints held that the graphs of a job came from, for its run folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fedkg.graphs import EndpointFetch, record_fetches
from fedkg.jobs.schema.addresses import is_address


@contextmanager
def record_endpoints(graphs: Sequence[str]) -> Iterator[list[EndpointFetch]]:
    """A list of what the endpoints among these held when they were asked in the block, filled at its end.

    Without an endpoint the compiler is not looked for: a job with a pack does not need it.
    """
    if any(map(is_address, graphs)):
        with record_fetches() as found:
            yield found
    else:
        yield []
