"""Open handles, and their end at interpreter exit.

The hook runs while the interpreter is whole: it seals what is still open, then stops the engine's threads.
They must not outlive the interpreter. Handles are held weakly, so tracking keeps none alive.
"""

from __future__ import annotations

import atexit
from weakref import WeakSet

from lance_context._native import Log, Store, shutdown

CLOSE_LIMIT_S = 5.0

_open: WeakSet[Store | Log] = WeakSet()


def track(store: Store | Log) -> None:
    """Closes `store` at interpreter exit, if it is still open then."""
    _open.add(store)


@atexit.register
def _close_all() -> None:
    shutdown([store for store in _open if not store.closed], CLOSE_LIMIT_S)
