"""What both classes of a store share: arguments in, warnings out. No I/O."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, NoReturn, TypeVar, cast

from lance_context import _lifecycle
from lance_context._native import Log, Maintenance, OpenOptions, Query, Store
from lance_context.errors import UnsealedRowsWarning, UnsupportedError
from lance_context.types import (
    ExportReport,
    Finding,
    MaintenanceOptions,
    ReadMode,
    Row,
    SchemaDeclaration,
    StoreStats,
    T,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from lance_context._models import ModelView, Plan

DEFAULT_MAINTENANCE = MaintenanceOptions()


class OpenRequest(NamedTuple):
    """The arguments of the native `Store.open`, in order."""

    uri: str
    schema: str | None
    must_exist: bool
    options: OpenOptions


def open_request(
    uri: str | os.PathLike[str],
    schema: SchemaDeclaration | None = None,
    *,
    must_exist: bool = False,
    seal_on_add: bool | None = None,
    fsync: bool | None = None,
    gc_grace: float | timedelta | None = None,
    read: ReadMode = "sealed",
    read_only: bool = False,
    writer_id: str | None = None,
    maintenance: MaintenanceOptions | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> OpenRequest:
    """Checks the arguments of `open` and `open_existing`."""
    options = OpenOptions(
        seal_on_add=seal_on_add,
        fsync=fsync,
        gc_grace_s=seconds(gc_grace),
        read=read,
        read_only=read_only,
        writer_id=writer_id,
        maintenance=None if maintenance is None else Maintenance(**asdict(maintenance)),
        storage_options=dict(storage_options or {}),
    )
    return OpenRequest(_location(uri), None if schema is None else _declaration(schema), must_exist, options)


def doctor_request(
    uri: str | os.PathLike[str], repair: bool, storage_options: Mapping[str, str] | None
) -> tuple[str, OpenOptions, bool]:
    """Checks the arguments of `doctor`, which are those of the native one."""
    request = open_request(uri, must_exist=True, read_only=not repair, storage_options=storage_options)
    return request.uri, request.options, repair


def query(
    *,
    filter: str | Mapping[str, object] | None = None,
    params: Mapping[str, object] | None = None,
    columns: Sequence[str] | None = None,
    order_by: str | Sequence[str] | None = None,
    limit: int | None = None,
    offset: int | None = None,
    after: str | None = None,
    read: ReadMode | None = None,
) -> Query:
    """Checks the arguments of `list` and `count`."""
    return Query(
        filter=filter,
        params=params,
        columns=column_names(columns),
        order_by=[order_by] if isinstance(order_by, str) else order_by and list(order_by),
        limit=None if limit is None else not_negative("limit", limit),
        offset=0 if offset is None else not_negative("offset", offset),
        after=after,
        read=read,
    )


def seconds(duration: float | timedelta | None) -> float | None:
    """Takes seconds or a timedelta, if one is given."""
    return duration.total_seconds() if isinstance(duration, timedelta) else duration


def row_ids(ids: str | Sequence[str]) -> list[str]:
    """Copies `ids`, one or several."""
    return [ids] if isinstance(ids, str) else list(ids)


def many_ids(ids: Sequence[str]) -> list[str]:
    """Copies `ids`; a bare string, a sequence of its letters, is refused."""
    if isinstance(ids, str):
        raise TypeError(f"`ids` takes a sequence of ids; did you mean [{ids!r}]?")
    return list(ids)


def column_names(columns: Sequence[str] | None) -> list[str] | None:
    """Copies `columns`; a bare string, a sequence of its letters, is refused."""
    if isinstance(columns, str):
        raise TypeError(f"`columns` takes a sequence of names; did you mean columns=[{columns!r}]?")
    return None if columns is None else list(columns)


def not_negative(argument: str, value: int) -> int:
    """Refuses a negative `value`."""
    if value < 0:
        raise ValueError(f"`{argument}` is at least 0, not {value}")
    return value


def findings(found: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """Names the fields of what the engine's doctor found."""
    return [Finding(**finding) for finding in found]


def declared(schema: SchemaDeclaration | type[BaseModel] | None) -> tuple[SchemaDeclaration | None, Plan[Any] | None]:
    """Takes a class in place of a declaration as a model, which declares a schema and a plan to read it."""
    if not isinstance(schema, type):
        return schema, None
    plan = plan_of(schema)
    return plan.schema, plan


def plan_of(model: type[BaseModel]) -> Plan[Any]:
    """Reads a model."""
    from lance_context import _models

    return _models.plan_of(model)


def rows_given(rows: object) -> object:
    """Takes models as rows. Whatever else is given is passed on as it is."""
    # No model is there unless pydantic is, which rows alone do not import.
    model = getattr(sys.modules.get("pydantic.main"), "BaseModel", None)
    if model is None:
        return rows
    if isinstance(rows, model):
        several: Iterable[object] = [rows]
    elif isinstance(rows, Mapping | str | bytes) or _is_arrow(rows) or not isinstance(rows, Iterable):
        return cast("object", rows)
    else:
        several = cast("Iterable[object]", rows)
        if isinstance(several, list) and not any(type(row) is not dict and isinstance(row, model) for row in several):
            return several
    from lance_context import _models

    return _models.rows_of(several)


def as_they_are(rows: list[Row]) -> list[Row]:
    """Rows of named columns, which are no models."""
    return rows


N = TypeVar("N", Store, Log)


class BaseHandle(Generic[N]):
    """One open handle: its identity and its end."""

    _native: N
    _stats: StoreStats | None

    def __init__(self, native: N) -> None:
        self._native = native
        _lifecycle.track(native)
        self._stats = None

    @property
    def uri(self) -> str:
        """Where the store is, as it was opened."""
        return self._native.uri

    @property
    def closed(self) -> bool:
        """Whether the handle is of no more use: closed, or opened before a fork by the parent process."""
        return self._native.closed

    def schema(self) -> Row:
        """The declared schema in tagged form, with every default spelled out. `open` accepts it.

        Returns:
            Column declarations by name, in the order of the declaration.

        Raises:
            StateError: The handle was opened before a fork (``forked``).
        """
        return cast("Row", json.loads(self._native.schema()))

    def __repr__(self) -> str:
        closed = ", closed" if self.closed else ""
        return f"<{type(self).__name__} {self.uri!r}{closed}>"

    def _repr_html_(self) -> str:
        """Shows the handle in a notebook: what it is, its columns, and the counters that `stats` read last. No I/O."""
        from lance_context._html import store_html

        schema = {} if self.closed else self.schema()
        return store_html(repr(self), schema, self._native.unsealed_rows, self._stats)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} holds files and threads and cannot be pickled; pass its uri, and open the store where it is used"
        )

    def __del__(self) -> None:
        if not self._native.closed and not sys.is_finalizing():
            warnings.warn(f"unclosed {self!r}", ResourceWarning, stacklevel=2, source=self)

    def _noted(self, stats: StoreStats) -> StoreStats:
        """Keeps counters that were read, for `_repr_html_`."""
        self._stats = stats
        return stats


class BaseStore(BaseHandle[Store], Generic[T]):
    """One open handle of rows: what it reads them as, and the warning about those that are not seen."""

    _read: ReadMode
    _warned: bool
    _view: ModelView[Any] | None

    def __init__(self, native: Store, read: ReadMode) -> None:
        super().__init__(native)
        self._read = read
        self._warned = False
        self._view = None

    def _read_as(self, plan: Plan[Any] | None) -> None:
        """From here on, reads make models of whole rows, if there is a plan for them."""
        self._view = None if plan is None else plan.view(self.schema())

    def _asked(self, columns: Sequence[str] | None) -> list[str] | None:
        """The columns to read: those of the model, if there is one and the caller names none."""
        return column_names(columns) if columns is not None or self._view is None else self._view.columns

    def _typed(self, rows: list[Row]) -> list[T]:
        """Whole rows as what the store reads them as."""
        return cast("list[T]", rows if self._view is None else self._view.models(rows))

    def _typed_or_none(self, rows: list[Row | None]) -> list[T | None]:
        typed = iter(self._typed([row for row in rows if row is not None]))
        return [None if row is None else next(typed) for row in rows]

    def _listed(self, rows: list[Row], columns: Sequence[str] | None, read: ReadMode | None) -> list[T] | list[Row]:
        """What `list` returns of the rows it found."""
        if not rows:
            self._saw_nothing(read)
        return self._typed(rows) if columns is None else rows

    def _got(self, row: Row | None, columns: Sequence[str] | None, read: ReadMode | None) -> T | Row | None:
        """What `get` returns of the row it found."""
        if row is None:
            self._saw_nothing(read)
        return row if row is None or columns is not None else self._typed([row])[0]

    def _got_many(
        self, rows: list[Row | None], columns: Sequence[str] | None, read: ReadMode | None
    ) -> list[T | None] | list[Row | None]:
        """What `get_many` returns of the rows it found."""
        if rows and all(row is None for row in rows):
            self._saw_nothing(read)
        return self._typed_or_none(rows) if columns is None else rows

    def _exported(self, report: ExportReport, read: ReadMode | None) -> ExportReport:
        """What `export` returns of what it wrote."""
        if not report.rows:
            self._saw_nothing(read)
        return report

    def _saw_nothing(self, read: ReadMode | None) -> None:
        """Warns the caller's caller, once a handle, when rows exist that the empty read could not see."""
        if self._warned or (read or self._read) != "sealed" or not (unsealed := self._native.unsealed_rows):
            return
        self._warned = True
        warnings.warn(
            f"nothing was found, but {unsealed} rows of {self!r} are durable and not sealed; "
            'call flush(), or read with read="latest"',
            UnsealedRowsWarning,
            stacklevel=4,
        )


def _location(uri: str | os.PathLike[str]) -> str:
    location = os.fspath(uri)
    if not isinstance(location, str):
        raise TypeError("`uri` takes a str or a path of str, not of bytes")
    if not location:
        raise ValueError("`uri` is empty; pass a path or a uri")
    if location.lower().startswith(("http://", "https://")):
        raise UnsupportedError(f"`{location}` is a server, which this version cannot open", code="unsupported")
    return location


def _is_arrow(rows: object) -> bool:
    return hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__")


def _declaration(schema: SchemaDeclaration) -> str:
    if not isinstance(schema, Mapping):
        raise TypeError(
            f"`schema` takes a mapping of column names to types or a pydantic model, not {type(schema).__name__}"
        )
    # JSON turns other keys into text, and knows dict alone.
    if not all(isinstance(name, str) for name in schema):
        raise TypeError("the column names of `schema` are str")
    return json.dumps(dict(schema), default=_plain)


def _plain(declaration: object) -> dict[object, object]:
    if isinstance(declaration, Mapping):
        return dict(cast("Mapping[object, object]", declaration))
    raise TypeError(f"`schema` takes type names and mappings, not {type(declaration).__name__}")
