"""The store: what a broker keeps on its disk, so that it outlives the broker.

`open_store` gives the one on disk, `MemoryStore()` the one that keeps nothing. Both are a `Store`.
"""

from openclust.shell.store.memory_store import MemoryStore
from openclust.shell.store.sqlite import SqliteStore, open_store
from openclust.shell.store.store import Store

__all__ = ["MemoryStore", "SqliteStore", "Store", "open_store"]
