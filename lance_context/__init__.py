"""Durable, queryable stores of rows on Lance, for agents and data generation.

`GenericStore` keeps rows of a declared schema; `AsyncGenericStore` is the same with ``await``.
Every error derives from `LanceContextError`, except that arguments that make no sense raise Python's own
``ValueError`` and ``TypeError``.
"""

from lance_context import _native
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
from lance_context.generic import AsyncGenericStore, GenericStore
from lance_context.types import AddResult, MergeReport, ReadMode, Row, SchemaDeclaration, StoreStats

__version__ = _native.VERSION

__all__ = [
    "AddResult",
    "AlreadyExistsError",
    "AsyncGenericStore",
    "AuthError",
    "ConflictError",
    "FencedError",
    "FormatError",
    "GenericStore",
    "InternalError",
    "LanceContextError",
    "MergeReport",
    "NotFoundError",
    "QueryError",
    "ReadMode",
    "Row",
    "RowError",
    "SchemaDeclaration",
    "SchemaError",
    "StateError",
    "StorageError",
    "StoreStats",
    "UnavailableError",
    "UnsealedRowsWarning",
    "UnsupportedError",
    "__version__",
]
