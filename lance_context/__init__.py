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
    DeleteResult,
    Finding,
    MaintenanceOptions,
    MergeReport,
    OnConflict,
    OptimizeReport,
    ReadMode,
    Row,
    SchemaDeclaration,
    StoreStats,
)

__version__ = _native.VERSION

__all__ = [
    "AddResult",
    "AlreadyExistsError",
    "AsyncGenericStore",
    "AuthError",
    "ConflictError",
    "DeleteResult",
    "FencedError",
    "Finding",
    "FormatError",
    "GenericStore",
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
    "UnavailableError",
    "UnsealedRowsWarning",
    "UnsupportedError",
    "__version__",
    "schema_from",
]
