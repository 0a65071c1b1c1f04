"""Durable, queryable stores of rows on Lance, for agents and data generation.

`GenericStore` keeps rows of a declared schema; `AsyncGenericStore` is the same with ``await``.
Every error derives from `LanceContextError`, except that arguments that make no sense raise Python's own
``ValueError`` and ``TypeError``.
"""

from lance_context import _native
from lance_context._native import RecordBatch
from lance_context.async_generic import AsyncGenericStore
from lance_context.errors import (
    AlreadyExistsError,
    AuthError,
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

__version__ = _native.VERSION

__all__ = [
    "AddResult",
    "AlreadyExistsError",
    "ArrowArray",
    "ArrowData",
    "ArrowStream",
    "AsyncGenericStore",
    "AuthError",
    "ConflictError",
    "DeleteResult",
    "ExportReport",
    "FencedError",
    "Finding",
    "FormatError",
    "GenericStore",
    "ImportReport",
    "InternalError",
    "LanceContextError",
    "MaintenanceOptions",
    "MergeReport",
    "NotFoundError",
    "OnConflict",
    "OptimizeReport",
    "QueryError",
    "ReadMode",
    "RecordBatch",
    "Row",
    "RowError",
    "Schema",
    "SchemaDeclaration",
    "SchemaError",
    "StateError",
    "StorageError",
    "StoreStats",
    "TransferFormat",
    "TransferProgress",
    "UnavailableError",
    "UnsealedRowsWarning",
    "UnsupportedError",
    "__version__",
    "schema_from",
]
