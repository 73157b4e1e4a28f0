"""Pauses the search for cyclic garbage while many objects that stay are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Search for no cyclic garbage inside the block.

    A compilation or validation makes millions of objects that stay, and hardly a cycle. A search
    would visit all of them again and again.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():
                # All new objects go to the oldest generation: a search of the youngest, which
                # begins as soon as it is allowed, would visit millions of them.
                gc.freeze()
                gc.unfreeze()
            gc.enable()
