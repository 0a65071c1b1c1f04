"""Every exception and warning of the package.

The class says what the caller can do, ``code`` what happened. Codes are stable and never renamed;
messages are for people and may change. The engine picks the class, so an error is the same wherever it
was raised. Underlying errors of the engine are attached as notes.
"""

from __future__ import annotations


class LanceContextError(Exception):
    """Base of every error of this package.

    Attributes:
        code: What happened, as a stable word.
        retryable: Whether the same call can succeed later without a change by the caller.
        row: Index of the row concerned in its batch, if the error is about one.
        column: Name of the column concerned, if the error is about one.
        rows_done: How many rows of the source are durable, if an import was broken off.
    """

    code: str
    retryable: bool
    row: int | None
    column: str | None
    rows_done: int | None = None

    def __init__(
        self,
        message: str = "",
        *,
        code: str = "",
        retryable: bool = False,
        row: int | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.retryable = retryable
        self.row = row
        self.column = column


class SchemaError(LanceContextError, ValueError):
    """A declaration is illegal, or differs from the stored one.

    Codes: ``invalid-column``, ``invalid-schema``, ``schema-mismatch``, ``option-mismatch``,
    ``schema-missing``.
    """


class RowError(LanceContextError, ValueError):
    """A row does not fit the schema, and nothing of its batch was written; or a stored one does not fit the model.

    Codes: ``unknown-column``, ``missing-value``, ``wrong-type``, ``out-of-range``, ``batch-too-large``,
    ``invalid-row``, ``invalid-event``.
    """


class QueryError(LanceContextError, ValueError):
    """A filter or another part of a query cannot be understood.

    Codes: ``invalid-query``, ``query-column``, ``query-parameter``.
    """


class NotFoundError(LanceContextError, LookupError):
    """What was asked for is not there.

    Codes: ``store-not-found``, ``row-not-found``, ``item-not-found``, ``event-not-found``.
    """


class AlreadyExistsError(LanceContextError):
    """What was to be created is there already.

    Codes: ``row-exists``, ``item-exists``.
    """


class ConflictError(LanceContextError):
    """Another writer was faster.

    Codes: ``event-conflict``.
    """


class FencedError(ConflictError):
    """Another writer took over: it kept the store through every retry, or came between a write and its end.

    With ``stream-fenced`` another stream owns the item: stop this writer, do not reopen.

    Codes: ``writer-fenced``, ``write-uncertain``, ``stream-fenced``.
    """


class StateError(LanceContextError):
    """The handle cannot do this in its state, or ever.

    Codes: ``closed``, ``forked``, ``runtime-stopped``, ``read-only``, ``stream-gap``, ``item-terminal``,
    ``config-changed``, ``repeated-position``, ``writer-order``.
    """


class AuthError(LanceContextError, PermissionError):
    """A token is missing, or does not allow this."""


class StorageError(LanceContextError, OSError):
    """The disk, the object store or the network failed. Usually ``retryable``.

    Codes: ``storage``.
    """


class UnavailableError(StorageError, ConnectionError):
    """The server is unreachable or overloaded.

    Attributes:
        retry_after: Seconds after which the server asks to be tried again, if it said so.
    """

    retry_after: float | None = None


class UnsupportedError(LanceContextError):
    """This kind of store or uri cannot do it.

    Codes: ``unsupported``.
    """


class FormatError(LanceContextError):
    """Stored data cannot be read: it is something else, damaged, or of a newer version.

    Codes: ``not-a-store``, ``damaged``, ``item-damaged``, ``blob-damaged``.
    """


class InternalError(LanceContextError):
    """A bug in this package. Please report it with its message.

    Codes: ``internal``.
    """


class UnsealedRowsWarning(UserWarning):
    """A read of sealed rows came back empty while this handle has rows that are not sealed.

    Such rows are durable. They become visible to every reader with ``flush()``, or to this read with
    ``read="latest"``.
    """


class ConfigChangedWarning(UserWarning):
    """An item is resumed with another configuration than it was started with.

    What former attempts did was done with the other one. ``on_config_change="error"`` makes it an error.
    """
