"""Rows, declarations and reports: the plain values that stores take and return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Row: TypeAlias = dict[str, Any]
"""One record by column name. The value of a column has the type that its declaration says."""

ReadMode: TypeAlias = Literal["sealed", "latest"]
"""Which durable rows a read sees: ``"sealed"`` ones, or the ``"latest"`` of every writer."""

SchemaDeclaration: TypeAlias = Mapping[str, "str | Mapping[str, object]"]
"""Columns by name: a type name, or a mapping with ``"type"``, its options and ``"nullable"``."""


@dataclass(frozen=True, slots=True)
class AddResult:
    """What `GenericStore.add` did.

    Attributes:
        count: Rows acknowledged.
    """

    count: int


@dataclass(frozen=True, slots=True)
class MergeReport:
    """What `GenericStore.merge` did.

    Attributes:
        generations: Generations folded into the base table.
        rows: Rows written to the base table.
        deleted: Keys deleted from the base table.
        version: Version of the base table after the merge.
    """

    generations: int
    rows: int
    deleted: int
    version: int


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What is known of a store.

    Attributes:
        base_rows: Rows in the base table.
        generations: Sealed generations that are not merged.
        unsealed_rows: Rows that are durable in this handle and not sealed.
        wal_bytes: Bytes of WAL entries on storage.
        wal_entries: WAL entries on storage.
        version: Version of the base table.
        seal_on_add: Whether ``add`` seals before it returns.
        fsync: Whether an acknowledged row also survives a crash of the machine.
    """

    base_rows: int
    generations: int
    unsealed_rows: int
    wal_bytes: int
    wal_entries: int
    version: int
    seal_on_add: bool
    fsync: bool
