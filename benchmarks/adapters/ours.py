"""lance-context as built from this tree and installed in the interpreter that runs the benchmarks."""

from collections.abc import Sequence
from pathlib import Path

import lance_context
from adapters.base import Answer, Engine, ItemLog, Rows, Store
from adapters.ours_log import OurLog
from adapters.worker import serve
from data import DIM, Row, check
from lance_context import DatagenStore, GenericStore, SchemaDeclaration

_SCHEMA: SchemaDeclaration = {
    "id": "string",
    "user": "string",
    "score": "float32",
    "vec": {"type": "vector", "dim": DIM},
    "text": "string",
    "blob": {"type": "binary", "blob": True},
}


class OurStore:
    def __init__(self, store: GenericStore) -> None:
        self._store = store

    def add(self, rows: Sequence[Row]) -> None:
        result = self._store.add(rows)
        check(result.count == len(rows), f"add reported {result.count} rows of {len(rows)}")

    def flush(self) -> None:
        self._store.flush()

    def merge(self) -> None:
        self._store.merge()

    def list(self, *, where: str | None = None, columns: Sequence[str] | None = None) -> list[Row]:
        return self._store.list(filter=where, columns=columns)

    def get(self, id: str, columns: Sequence[str] | None = None) -> Row | None:
        return self._store.get(id, columns=columns)

    def arrow(self) -> Answer[Rows]:
        return self._store.to_arrow().to_pylist

    def close(self) -> None:
        self._store.close()


class Ours:
    module = "lance_context"

    def versions(self) -> dict[str, str]:
        return {"lance-context": lance_context.__version__}

    def create(self, path: Path, *, readable_on_return: bool = False, synced: bool = False) -> Store:
        read = "latest" if readable_on_return else "sealed"
        # Each workload says itself when to seal and merge.
        return OurStore(GenericStore.open(str(path), schema=_SCHEMA, read=read, fsync=synced, maintenance=None))

    def reopen(self, path: Path) -> Store:
        return OurStore(GenericStore.open_existing(str(path)))

    def create_log(self, path: Path) -> ItemLog:
        # `maintain` is to leave only what a later open needs; by default, superseded files stay for five minutes.
        return OurLog(DatagenStore.open(path, maintenance=None, gc_grace=0))

    def reopen_log(self, path: Path, *, read_only: bool = True) -> ItemLog:
        return OurLog(DatagenStore.open_existing(path, read_only=read_only, maintenance=None))


if __name__ == "__main__":
    engine: Engine = Ours()
    serve(engine)
