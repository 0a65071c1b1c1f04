"""The same rows at each place where a store can hold them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lance_context import GenericStore

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from lance_context import SchemaDeclaration


def each_stage(
    path: Path, schema: SchemaDeclaration, rows: Iterable[Mapping[str, object]]
) -> Iterator[tuple[str, GenericStore]]:
    """Add the rows to a new store and yield it while they are durable, sealed, merged and reopened."""
    with GenericStore.open(path, schema=schema, read="latest", gc_grace=0) as store:
        store.add(rows)
        yield "durable", store
        store.flush()
        yield "sealed", store
        store.merge()
        yield "merged", store
    with GenericStore.open_existing(path) as store:
        yield "reopened", store


def move(store: GenericStore, place: str) -> None:
    """Bring everything that was added to a place: `memtable`, `generation` or `base`."""
    if place != "memtable":
        store.flush()
    if place == "base":
        store.merge()


PLACES = ("memtable", "generation", "base")
