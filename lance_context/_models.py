"""Rows from models, and models from rows. No I/O.

A row has for each field of a model the value that its column takes. What a read left out of a model is outside
its ``model_fields_set``, and that set remembers it through every copy, so that the model cannot replace the row
it came from by less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from functools import cached_property, lru_cache
from itertools import groupby, islice
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from lance_context._annotations import (
    Shape,
    UnfitError,
    bare_class,
    is_blob,
    read_name,
    shape_of,
    shown,
    stored_fields,
    stored_name,
)
from lance_context.errors import RowError, SchemaError
from lance_context.schema import ColumnDeclaration, Schema, spelled
from lance_context.types import Row

M = TypeVar("M", bound=BaseModel)

ID = "id"

# How many models pydantic serializes in one call: enough that the call counts for nothing.
AT_ONCE = 64


def plan_of(model: type[M]) -> Plan[M]:
    """How the rows and models of a class become each other.

    Raises:
        SchemaError: A field has no column, or there is no ``id`` (``invalid-column``).
        TypeError: `model` is no pydantic model.
    """
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        raise TypeError(f"a model is a class of pydantic's `BaseModel`, not {model!r}")
    return cast("Plan[M]", _plan(model))


def rows_of(rows: Iterable[object]) -> Iterator[object]:
    """The same rows, with models turned into such.

    Raises:
        RowError: A read left columns out of a model (``missing-value``), or pydantic cannot serialize it
            (``invalid-row``).
        SchemaError: Its class has no schema (``invalid-column``).
    """
    index = 0
    for kind, alike in groupby(rows, type):
        if issubclass(kind, BaseModel):
            plan = plan_of(kind)
            while models := list(islice(cast("Iterator[BaseModel]", alike), AT_ONCE)):
                yield from plan.rows(models, index)
                index += len(models)
        else:
            for row in alike:
                yield row
                index += 1


class Plan(Generic[M]):
    """What is known of a class of models before any instance.

    Attributes:
        model: The class.
        schema: Its columns.
        fields: The field of each column.
        blobless: The columns whose fields do without a value, as blobs must.
    """

    def __init__(self, model: type[M]) -> None:
        if not model.__pydantic_complete__:
            model.model_rebuild()
        self.model = model
        self.fields: dict[str, str] = {}
        self.blobless: set[str] = set()
        # In the form of pydantic's `include` for a list of models.
        self._json_fields: dict[str, set[str]] = {}
        self._enums: list[str] = []
        self._read_names: set[str] = set()
        self._renamed: dict[str, str] = {}
        columns: dict[str, ColumnDeclaration] = {}
        for name, field in self._stored_fields():
            column = stored_name(name, field)
            try:
                shape = self._add(name, field, column)
            except UnfitError as error:
                what = f"field `{name}` of `{model.__name__}` is `{shown(field.annotation)}`"
                raise SchemaError(f"column `{column}`: {what}: {error}", code="invalid-column", column=column) from None
            columns[column] = spelled(shape.column, shape.nullable)
        self.schema = Schema(columns)
        self._check_id()

    def _stored_fields(self) -> Iterator[tuple[str, FieldInfo]]:
        try:
            yield from stored_fields(self.model)
        except UnfitError as error:
            raise SchemaError(f"model `{self.model.__name__}`: {error}", code="invalid-column") from None

    def _add(self, name: str, field: FieldInfo, column: str) -> Shape:
        if column in self.fields:
            raise UnfitError(f"field `{self.fields[column]}` has that column already")
        shape = shape_of(field.annotation, field.metadata)
        if _is_blobless(field, shape):
            self.blobless.add(column)
        elif is_blob(shape.column):
            raise UnfitError("reads leave a blob out; declare it as `Annotated[bytes | None, Blob()] = None`")
        key = read_name(name, field, self.model)
        if key is None:
            raise UnfitError("pydantic reads it from inside of another value only; give it an alias of its own")
        if key in self._read_names:
            raise UnfitError(f"pydantic reads another field by `{key}` too; give each an alias of its own")
        self._read_names.add(key)
        if key != column:
            self._renamed[column] = key
        if shape.as_json:
            self._json_fields.setdefault("__all__", set()).add(name)
        elif shape.enums:
            self._enums.append(column)
        self.fields[column] = name
        return shape

    def _check_id(self) -> None:
        field = self.model.model_fields.get(self.fields.get(ID, ""))
        column = self.schema.get(ID)
        if (
            field is None
            or not isinstance(column, Mapping)
            or column["type"] != "string"
            or column.get("nullable")
            or not (field.is_required() or field.default_factory)
        ):
            what = (
                f"column `{ID}`: model `{self.model.__name__}` needs a field `{ID}: str`, or of UUID, without a default"
            )
            raise SchemaError(what, code="invalid-column", column=ID)

    def view(self, stored: Mapping[str, Mapping[str, object]]) -> ModelView[M]:
        """How a store with that schema is read as models.

        Raises:
            SchemaError: It has not all columns of the model, or leaves one out (``schema-mismatch``).
        """
        return ModelView(self, stored)

    def rows(self, models: list[BaseModel], start: int) -> list[Row]:
        """Models of this class as the rows from index `start` on.

        Raises:
            RowError: As `rows_of`.
        """
        for index, model in enumerate(models, start):
            if type(loaded := model.__pydantic_fields_set__) is _PartlyLoaded:
                self._check_loaded(model, loaded, index)
        try:
            return self._dumped(models)
        except Exception as error:
            # Serializers of the model's own raise what they like, and pydantic does not say for which instance.
            if len(models) > 1:
                return [self.rows([model], index)[0] for index, model in enumerate(models, start)]
            message = f"row {start} cannot be taken from its `{self.model.__name__}`: {error}"
            raise RowError(message, code="invalid-row", row=start) from error

    def _dumped(self, models: list[BaseModel]) -> list[Row]:
        to_python = self._adapter.serializer.to_python
        # `round_trip` leaves out computed fields. The store checks values and knows the index of the row, so
        # pydantic need not warn of those that do not fit.
        rows: list[Row] = to_python(models, by_alias=True, round_trip=True, exclude=self._json_fields, warnings=False)
        if self._json_fields:
            parts = to_python(models, mode="json", by_alias=True, round_trip=True, include=self._json_fields)
            for row, part in zip(rows, parts, strict=True):
                row |= part
        for column in self._enums:
            for row in rows:
                row[column] = _plain(row.get(column))
        return rows

    def _check_loaded(self, model: BaseModel, loaded: _PartlyLoaded, index: int) -> None:
        """Refuses a model without what the read of it left out, unless it was set since."""
        for column in sorted(loaded.left_out):
            if self.fields.get(column) not in loaded:
                raise RowError(
                    f"row {index} (`{getattr(model, self.fields[ID])}`): it was read without `{column}`, and `add` "
                    "replaces whole rows; use update, or get with columns",
                    code="missing-value",
                    row=index,
                    column=column,
                )

    def models(self, rows: list[Row]) -> list[M]:
        """The rows as models, which takes the dicts over.

        Raises:
            RowError: A row does not fit the model (``invalid-row``).
        """
        if self._renamed:
            for row in rows:
                # All are taken out before one is put back: a key may be the column of another field.
                row.update([(key, row.pop(column)) for column, key in self._renamed.items() if column in row])
        try:
            # What is stored has another form here and there (an enum's value, a list for a tuple), so that
            # strict models are read laxly.
            return self._adapter.validate_python(rows, strict=False)
        except ValidationError as error:
            raise self._misfit(rows, error) from error

    @cached_property
    def _adapter(self) -> TypeAdapter[list[M]]:
        return TypeAdapter(cast("Any", list)[self.model])

    def _misfit(self, rows: list[Row], error: ValidationError) -> RowError:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        index, *place = first["loc"]
        id = rows[cast("int", index)][self._renamed.get(ID, ID)]
        column = next((c for c, key in self._renamed.items() if place and key == place[0]), place[0] if place else None)
        where = f"`{'.'.join(map(str, (column, *place[1:])))}`: " if place else ""
        return RowError(
            f"row `{id}` does not fit `{self.model.__name__}`: {where}{first['msg']}; "
            "read it with columns, or mend it with update",
            code="invalid-row",
            column=None if column is None else str(column),
        )


class ModelView(Generic[M]):
    """How one store is read as models.

    Attributes:
        columns: What to read; ``None``: what the store reads by itself.
    """

    def __init__(self, plan: Plan[M], stored: Mapping[str, Mapping[str, object]]) -> None:
        for column, name in plan.fields.items():
            where = f"column `{column}`: field `{name}` of `{plan.model.__name__}`"
            if column not in stored:
                raise SchemaError(f"{where} is no column of the store", code="schema-mismatch", column=column)
            if is_blob(stored[column]) and column not in plan.blobless:
                raise SchemaError(
                    f"{where} is a blob in the store, which reads leave out; declare it as "
                    "`Annotated[bytes | None, Blob()] = None`",
                    code="schema-mismatch",
                    column=column,
                )
        usual = [column for column, declaration in stored.items() if not is_blob(declaration)]
        read = [column for column in usual if column in plan.fields]
        self.columns = None if read == usual else read
        self._left_out = frozenset(stored) - frozenset(read)
        self._plan = plan

    def models(self, rows: list[Row]) -> list[M]:
        """The rows as models that know what this read has left out.

        Raises:
            RowError: A row does not fit the model (``invalid-row``).
        """
        models = self._plan.models(rows)
        if self._left_out:
            for model in models:
                loaded = _PartlyLoaded(model.__pydantic_fields_set__)
                loaded.left_out = self._left_out
                # Past what a frozen or validating model makes of an assignment.
                object.__setattr__(model, "__pydantic_fields_set__", loaded)
        return models


class _PartlyLoaded(set[str]):
    """The ``model_fields_set`` of a model from a read that left columns out; `left_out` names those.

    Copies, pickles and assignments of pydantic keep the set, and comparisons of models leave it alone. A private
    attribute would make a model that was read differ from an equal one, and a registry would lose the copies.
    """

    left_out: frozenset[str] = frozenset()


@lru_cache(maxsize=1024)
def _plan(model: type[BaseModel]) -> Plan[Any]:
    return Plan(model)


def _is_blobless(field: FieldInfo, shape: Shape) -> bool:
    return shape.nullable and field.default is None and bare_class(field.annotation) is bytes


def _plain(value: object) -> object:
    """A value with the values of enums in place of their members."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in cast("dict[object, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in cast("Iterable[object]", value)]
    return value
