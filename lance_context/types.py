"""Rows, declarations and reports: the plain values that stores take and return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from pydantic import BaseModel
    from typing_extensions import TypeVar as TypeVarWithDefault

Row: TypeAlias = dict[str, Any]
"""One record by column name. The value of a column has the type that its declaration says."""

if TYPE_CHECKING:
    T = TypeVarWithDefault("T", default=Row)
else:
    T = TypeVar("T")  # its default is for the type checker, and `typing_extensions` is slow to import
"""What a store reads its rows as: `Row`, or the model that it was opened with."""

M = TypeVar("M", bound="BaseModel")
"""A pydantic model."""

ReadMode: TypeAlias = Literal["sealed", "latest"]
"""Which durable rows a read sees: ``"sealed"`` ones, or the ``"latest"`` of every writer."""

SchemaDeclaration: TypeAlias = Mapping[str, "str | Mapping[str, object]"]
"""Columns by name: a type name, or a mapping with ``"type"``, its options and ``"nullable"``.

The classes of `lance_context.schema` are such mappings, and its `Schema` is a declaration."""


class ArrowStream(Protocol):
    """Arrow columns in batches: a table or a reader of pyarrow, a frame of Polars or pandas, a result of DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Hands out the batches as a capsule."""
        ...


class ArrowArray(Protocol):
    """Arrow columns in one batch: a `RecordBatch` of this package or of pyarrow."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Hands out schema and columns as capsules."""
        ...


ArrowData: TypeAlias = ArrowStream | ArrowArray
"""What speaks the Arrow PyCapsule interface."""

OnConflict: TypeAlias = Literal["replace", "error", "ignore"]
"""What `add` does with a row whose id is there already: replace it, refuse the whole call, or keep the old one."""


@dataclass(frozen=True, slots=True)
class MaintenanceOptions:
    """What a handle that writes does in the background.

    It starts with the first write of the handle and ends with `close`. A handle that only reads does nothing.

    Attributes:
        seal_idle_s: Seal when nothing was added for this many seconds.
        seal_age_s: Seal when the oldest unsealed row has waited this many seconds.
        merge_generations: Merge when this many sealed generations are pending.
        merge_bytes: Merge when the pending generations have this many bytes.
        compact_bytes: Rewrite files of the base table that are smaller than half of this into ones of about
            this many bytes.
        orphan_after_s: Seal what another writer left unsealed when it has been silent for this many seconds.
    """

    seal_idle_s: float = 1.0
    seal_age_s: float = 10.0
    merge_generations: int = 8
    merge_bytes: int = 64 << 20
    compact_bytes: int = 256 << 20
    orphan_after_s: float = 600.0


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
class DeleteResult:
    """What `GenericStore.delete` or `GenericStore.delete_where` did.

    Attributes:
        count: Rows deleted.
    """

    count: int


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that `GenericStore.doctor` found.

    Attributes:
        severity: ``"error"``: acknowledged rows are lost, doubled or hidden, or the store cannot be read or
            written. ``"warning"``: it is slower or larger than it should be. ``"note"``: nothing to do.
        code: What is wrong, as a stable word.
        subject: The file, directory, key or part of the store that it is about.
        message: What, where, and what to do.
        repaired: Whether the repair mended it.
    """

    severity: Literal["note", "warning", "error"]
    code: str
    subject: str
    message: str
    repaired: bool


@dataclass(frozen=True, slots=True)
class OptimizeReport:
    """What `GenericStore.optimize` did.

    Attributes:
        generations: Generations folded into the base table.
        fragments_removed: Files of rows that were rewritten.
        fragments_added: Files that they were rewritten into.
        versions_removed: Old versions of the base table that were removed.
        bytes_removed: Bytes of files that were removed with them.
        version: Version of the base table afterwards.
    """

    generations: int
    fragments_removed: int
    fragments_added: int
    versions_removed: int
    bytes_removed: int
    version: int


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What is known of a store.

    Attributes:
        rows: Live rows, unsealed ones of every writer included.
        base_rows: Rows in the base table.
        fragments: Files of rows in the base table.
        generations: Sealed generations that are not merged.
        generation_bytes: Bytes of their rows.
        unsealed_rows: Rows that are durable in this handle and not sealed.
        wal_bytes: Bytes of WAL entries on storage.
        wal_entries: WAL entries on storage.
        version: Version of the base table.
        versions: Versions of the base table on storage.
        quarantined: WAL entries that a crash of the machine left undecodable and that were put aside.
        seal_on_add: Whether ``add`` seals before it returns.
        fsync: Whether an acknowledged row also survives a crash of the machine.
        maintenance_error: Why the last background maintenance of this handle failed; ``None`` after one that
            did not.
    """

    rows: int
    base_rows: int
    fragments: int
    generations: int
    generation_bytes: int
    unsealed_rows: int
    wal_bytes: int
    wal_entries: int
    version: int
    versions: int
    quarantined: int
    seal_on_add: bool
    fsync: bool
    maintenance_error: str | None


TransferFormat: TypeAlias = Literal["parquet", "jsonl", "arrow", "arrow-stream"]
"""A file of rows: Parquet, JSON lines, an Arrow IPC file (Feather), or an Arrow IPC stream."""


@dataclass(frozen=True, slots=True)
class TransferProgress:
    """How far an `GenericStore.import_` or `GenericStore.export` is.

    Attributes:
        path: The file that is read, or the one that will be.
        rows: Rows transferred, those of earlier files included: durable in the store, or written to the file.
        total_rows: Rows of `path`, if it tells.
        bytes: Bytes of `path` read or written; ``None`` where files are not read from the front to the back (Parquet).
        total_bytes: Size of `path`; ``None`` while it grows.
    """

    path: str
    rows: int
    total_rows: int | None
    bytes: int | None
    total_bytes: int | None


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What `GenericStore.import_` did.

    Attributes:
        rows: Rows read, all of them durable.
        added: Rows added: fewer with ``on_conflict="ignore"`` than were read.
        skipped: Rows passed over at the beginning.
        chunks: Atomic additions.
    """

    rows: int
    added: int
    skipped: int
    chunks: int


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What `GenericStore.export` did.

    Attributes:
        rows: Rows written.
        bytes: Size of the file.
        path: Where it is.
    """

    rows: int
    bytes: int
    path: str
