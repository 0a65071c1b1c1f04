"""Durable, queryable stores of rows on Lance, for agents and data generation.

`GenericStore` keeps rows of a declared schema, `DatagenStore` the items of a data generation run; `AsyncGenericStore`
and `AsyncDatagenStore` are the same with ``await``.
Every error derives from `LanceContextError`, except that arguments that make no sense raise Python's own
``ValueError`` and ``TypeError``.
"""

import typing

from lance_context import _native
from lance_context._native import DatagenItemId, RecordBatch, datagen_event_id
from lance_context.async_generic import AsyncGenericStore
from lance_context.errors import (
    AlreadyExistsError,
    AuthError,
    ConfigChangedWarning,
    ConflictError,
    FencedError,
    FormatError,
    InternalError,
    LanceContextError,
    NotFoundError,
    QueryError,
    RowError,
    SchemaError,
    StateError,
    StorageError,
    UnavailableError,
    UnsealedRowsWarning,
    UnsupportedError,
)
from lance_context.generic import GenericStore
from lance_context.schema import Schema, schema_from
from lance_context.types import (
    AddResult,
    ArrowArray,
    ArrowData,
    ArrowStream,
    DeleteResult,
    ExportReport,
    Finding,
    ImportReport,
    MaintenanceOptions,
    MergeReport,
    OnConflict,
    OptimizeReport,
    ReadMode,
    Row,
    SchemaDeclaration,
    StoreStats,
    TransferFormat,
    TransferProgress,
)

if typing.TYPE_CHECKING:
    from lance_context.async_datagen import AsyncDatagenStore
    from lance_context.async_item import AsyncItemStream, AsyncStep
    from lance_context.datagen import DatagenStore
    from lance_context.datagen_types import (
        AppendResult,
        BlobRef,
        Event,
        Failure,
        FailureGroup,
        FencedStream,
        FieldWrite,
        FoldedField,
        FoldedItem,
        FoldedValue,
        ItemIdLike,
        OnConfigChange,
        Overview,
        Problem,
        RunReport,
        Status,
        StepKind,
        StepPosition,
        TrajectoryEntry,
    )
    from lance_context.datagen_writer import DatagenStreamWriter
    from lance_context.item import ItemStream, Step
    from lance_context.tree import ItemNode, ItemTree
else:
    # Whoever uses no item log does not wait for the import of its half of the package. The type checker must not see
    # this: to it, a module with `__getattr__` has every name.
    _HOMES = {
        "async_datagen": ["AsyncDatagenStore"],
        "async_item": ["AsyncItemStream", "AsyncStep"],
        "datagen": ["DatagenStore"],
        "datagen_types": [
            "AppendResult",
            "BlobRef",
            "Event",
            "Failure",
            "FailureGroup",
            "FencedStream",
            "FieldWrite",
            "FoldedField",
            "FoldedItem",
            "FoldedValue",
            "ItemIdLike",
            "OnConfigChange",
            "Overview",
            "Problem",
            "RunReport",
            "Status",
            "StepKind",
            "StepPosition",
            "TrajectoryEntry",
        ],
        "datagen_writer": ["DatagenStreamWriter"],
        "item": ["ItemStream", "Step"],
        "tree": ["ItemNode", "ItemTree"],
    }

    def __getattr__(name: str) -> object:
        from importlib import import_module

        for module, names in _HOMES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})


ItemId = DatagenItemId

__version__ = _native.VERSION

__all__ = [
    "AddResult",
    "AlreadyExistsError",
    "AppendResult",
    "ArrowArray",
    "ArrowData",
    "ArrowStream",
    "AsyncDatagenStore",
    "AsyncGenericStore",
    "AsyncItemStream",
    "AsyncStep",
    "AuthError",
    "BlobRef",
    "ConfigChangedWarning",
    "ConflictError",
    "DatagenItemId",
    "DatagenStore",
    "DatagenStreamWriter",
    "DeleteResult",
    "Event",
    "ExportReport",
    "Failure",
    "FailureGroup",
    "FencedError",
    "FencedStream",
    "FieldWrite",
    "Finding",
    "FoldedField",
    "FoldedItem",
    "FoldedValue",
    "FormatError",
    "GenericStore",
    "ImportReport",
    "InternalError",
    "ItemId",
    "ItemIdLike",
    "ItemNode",
    "ItemStream",
    "ItemTree",
    "LanceContextError",
    "MaintenanceOptions",
    "MergeReport",
    "NotFoundError",
    "OnConfigChange",
    "OnConflict",
    "OptimizeReport",
    "Overview",
    "Problem",
    "QueryError",
    "ReadMode",
    "RecordBatch",
    "Row",
    "RowError",
    "RunReport",
    "Schema",
    "SchemaDeclaration",
    "SchemaError",
    "StateError",
    "Status",
    "Step",
    "StepKind",
    "StepPosition",
    "StorageError",
    "StoreStats",
    "TrajectoryEntry",
    "TransferFormat",
    "TransferProgress",
    "UnavailableError",
    "UnsealedRowsWarning",
    "UnsupportedError",
    "__version__",
    "datagen_event_id",
    "schema_from",
]
