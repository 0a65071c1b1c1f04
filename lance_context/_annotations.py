"""What column an annotation of a model comes to, and in which form its values get there. No I/O.

This module and `_models` import pydantic; they are themselves imported only where a model is used.
"""

from __future__ import annotations

import datetime
import decimal
import typing
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, TypeGuard, TypeVar, Union, cast

import pydantic
import typing_extensions
from pydantic import AliasChoices, AliasPath, BaseModel, RootModel, TypeAdapter
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaWarningKind

from lance_context.schema import (
    Binary,
    Bool,
    Column,
    ColumnDeclaration,
    Date,
    Decimal,
    Float64,
    Int64,
    Json,
    List,
    String,
    Struct,
    Timestamp,
    spelled,
)

_SCALARS: Mapping[object, Column] = {
    str: String(),
    uuid.UUID: String(),
    int: Int64(),
    float: Float64(),
    bool: Bool(),
    bytes: Binary(),
    datetime.date: Date(),
    datetime.datetime: Timestamp(),
    pydantic.AwareDatetime: Timestamp(),
    pydantic.NaiveDatetime: Timestamp(tz=None),
}
# The mark of a field that is read from JSON text.
_CODED: type = getattr(pydantic, "Json")  # noqa: B009 - to type checkers it is `Annotated`
_JSON_SCALARS: tuple[object, ...] = (str, int, float, bool, NoneType)
_ANYTHING: tuple[object, ...] = (Any, object)
_BYTES: tuple[object, ...] = (bytes, bytearray, memoryview)
_LISTS: tuple[object, ...] = (list, Sequence)
_SETS: tuple[object, ...] = (set, frozenset)
_MAPPINGS: tuple[object, ...] = (dict, Mapping)
# Containers whose values have the same form in JSON and out of it.
_PLAIN_CONTAINERS: tuple[object, ...] = (list, dict, Union)
_ALIASES: tuple[type[typing_extensions.TypeAliasType], ...] = (
    typing_extensions.TypeAliasType,
    getattr(typing, "TypeAliasType", typing_extensions.TypeAliasType),
)
_T = TypeVar("_T")

Annotation: TypeAlias = object
"""What a field is annotated with: classes and the forms of `typing`, which have no narrower type in common."""


class UnfitError(Exception):
    """An annotation has no column. The message says why or what to do, and does not name the field."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What an annotation comes to.

    Attributes:
        column: The column, without its nullability.
        nullable: Whether ``None`` is a value.
        as_json: Whether the values are stored in the form that pydantic gives them in JSON.
        enums: Whether the values may hold members of enums; their values are stored.
    """

    column: Column
    nullable: bool = False
    as_json: bool = False
    enums: bool = False


class _Bare(NamedTuple):
    """An annotation without its wrappings, and what those said."""

    annotation: Annotation
    metadata: tuple[object, ...]
    nullable: bool


def shape_of(annotation: Annotation, metadata: Iterable[object]) -> Shape:
    """What an annotation comes to, with the metadata that pydantic has taken from it.

    Raises:
        UnfitError: It has no column.
    """
    bare = _unwrapped(annotation, metadata)
    column = _named(bare)
    if column:
        return _as_named(bare, column)
    shape = _derived(bare)
    return replace(shape, nullable=_nullable(bare, shape))


def bare_class(annotation: Annotation) -> object:
    """An annotation without `None`, metadata and aliases."""
    return _unwrapped(annotation, ()).annotation


def stored_fields(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo]]:
    """The fields that pydantic serializes."""
    for name, field in model.model_fields.items():
        if not field.exclude:
            yield name, field
        elif field.is_required():
            raise UnfitError(f"field `{name}` is excluded, so that it cannot be read; give it a default")


def stored_name(name: str, field: FieldInfo) -> str:
    """The key under which pydantic serializes a field."""
    return field.serialization_alias or name


def read_name(name: str, field: FieldInfo, model: type[BaseModel]) -> str | None:
    """A key under which pydantic accepts a field, its own where that is one; ``None``: there is none."""
    alias, config = field.validation_alias, model.model_config
    keys: list[str] = []
    if alias is not None and config.get("validate_by_alias") is not False:
        choices = alias.choices if isinstance(alias, AliasChoices) else [alias]
        paths = [choice.path if isinstance(choice, AliasPath) else [choice] for choice in choices]
        keys += [key for key, *rest in paths if isinstance(key, str) and not rest]
    if alias is None or config.get("validate_by_name") or config.get("populate_by_name"):
        keys.append(name)
    stored = stored_name(name, field)
    return stored if stored in keys else next(iter(keys), None)


def is_blob(column: Mapping[str, object]) -> bool:
    """Whether reads leave the column out unless they name it."""
    return column.get("blob") is True


def shown(annotation: Annotation) -> str:
    """An annotation as a person would write it, without metadata."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        return shown(arguments[0])
    if origin in (Union, UnionType):
        return " | ".join("None" if member is NoneType else shown(member) for member in arguments)
    if origin is None or origin is Literal or not arguments:
        name = annotation.__name__ if isinstance(annotation, type) else repr(annotation)
        return "..." if annotation is Ellipsis else name.replace("typing.", "")
    return f"{shown(origin)}[{', '.join(map(shown, arguments))}]"


def _unwrapped(annotation: Annotation, metadata: Iterable[object]) -> _Bare:
    """Takes off `Annotated`, `None`, aliases, new types and root models. What was further out comes later."""
    collected, nullable = tuple(metadata), False
    while True:
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is Annotated:
            annotation, collected = arguments[0], (*_flat(arguments[1:]), *collected)
        elif origin in (Union, UnionType):
            annotation = _union(member for member in arguments if member is not NoneType)
            if NoneType not in arguments:
                return _Bare(annotation, collected, nullable)
            nullable = True
        elif annotation is pydantic.JsonValue:
            return _Bare(Any, collected, nullable)
        elif isinstance(annotation, _ALIASES):
            annotation = annotation.__value__
        elif isinstance(origin, _ALIASES):
            annotation = origin.__value__[arguments]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif isinstance(annotation, TypeVar):
            annotation = _stand_in(annotation)
        elif _is_class(annotation, RootModel):
            root = annotation.model_fields["root"]
            annotation, collected = root.annotation, (*root.metadata, *collected)
        else:
            return _Bare(annotation, collected, nullable)


def _flat(metadata: Iterable[object]) -> Iterator[object]:
    """A `Field(…)` inside an annotation stands for the constraints in it."""
    for each in metadata:
        yield from each.metadata if isinstance(each, FieldInfo) else (each,)


def _stand_in(variable: TypeVar) -> Annotation:
    """What pydantic takes a type variable for that nobody has set."""
    if getattr(variable, "has_default", bool)():
        return cast("Any", variable).__default__
    return _union(variable.__constraints__) if variable.__constraints__ else variable.__bound__ or Any


def _union(members: Iterable[Annotation]) -> Annotation:
    return Union[tuple(members)]  # noqa: UP007 - which they are is known at run time only


def _named(bare: _Bare) -> Column | None:
    """The column that the annotation itself names; the outermost, if there are several."""
    for each in reversed(bare.metadata):
        if _is_class(each, Column):
            raise UnfitError(f"annotate it with a column, not with its class: `{each.__name__}()`")
        if isinstance(each, Column):
            return each
    return None


def _nullable(bare: _Bare, shape: Shape) -> bool:
    return bare.nullable or shape.nullable


def _as_named(bare: _Bare, column: Column) -> Shape:
    if isinstance(column, Json):
        shape = Shape(column, as_json=not _is_plain(bare.annotation, []))
    else:
        try:
            found = _derived(bare)
            as_json = _is_text(column) and not _is_text(found.column)
            shape = replace(found, column=column, as_json=as_json)
        except UnfitError:
            if typing.get_origin(bare.annotation) is Literal:
                raise
            # What is no text by itself has a text in JSON; other columns have no form of their own there.
            shape = Shape(column, as_json=_is_text(column))
    nullable = _nullable(bare, shape) or bare.annotation in _ANYTHING
    if column.nullable not in (None, nullable):
        allows = "allows" if nullable else "does not allow"
        raise UnfitError(f"the annotation {allows} `None`, and its column says otherwise; leave `nullable` out of it")
    return replace(shape, nullable=nullable)


def _is_text(column: Mapping[str, object]) -> bool:
    item = column.get("item")
    return column["type"] == "string" or item == "string" or isinstance(item, String)


def _derived(bare: _Bare) -> Shape:
    if any(each is _CODED or isinstance(each, _CODED) for each in bare.metadata):
        # Its values are written as the text that they are read from.
        return Shape(String())
    shape = _scalar(bare) or _struct(bare.annotation) or _list(bare.annotation) or _json(bare.annotation)
    if shape is None:
        raise UnfitError(_advice(bare.annotation))
    return shape


def _advice(annotation: Annotation) -> str:
    if typing.get_origin(annotation) is Literal and any(map(_is_member, typing.get_args(annotation))):
        return "pydantic does not read a member of an enum from its value here; use the enum itself"
    if annotation is decimal.Decimal:
        return (
            "say how many digits it has: `Field(max_digits=10, decimal_places=2)`, or "
            "`Annotated[Decimal, schema.Decimal(10, 2)]` with `lance_context.schema`"
        )
    if _container(annotation) in _SETS:
        return "a set has no order to keep; use a list"
    return (
        f"say with which column it is stored: `Annotated[{shown(annotation)}, Json()]`, "
        "or another one of `lance_context.schema`"
    )


def _scalar(bare: _Bare) -> Shape | None:
    annotation = bare.annotation
    if isinstance(annotation, type) and annotation in _SCALARS:
        return Shape(_SCALARS[annotation])
    if annotation is decimal.Decimal:
        precision = _constraint(bare.metadata, "max_digits")
        scale = _constraint(bare.metadata, "decimal_places")
        return None if precision is None or scale is None else Shape(Decimal(precision, scale))
    if typing.get_origin(annotation) is Literal:
        choice = typing.get_args(annotation)
        return None if any(map(_is_member, choice)) else _choice(choice)
    if _is_class(annotation, Enum):
        return _choice(tuple(annotation))
    return None


def _constraint(metadata: tuple[object, ...], name: str) -> int | None:
    return next((value for each in metadata if (value := getattr(each, name, None)) is not None), None)


def _is_member(value: object) -> bool:
    """Whether a value is a member of an enum, and not equal to what stands for it."""
    return isinstance(value, Enum) and value != value.value


def _choice(choice: tuple[object, ...]) -> Shape | None:
    """One of several values, or of several members of enums."""
    values = [each.value if isinstance(each, Enum) else each for each in choice]
    given = [value for value in values if value is not None]
    enums = any(isinstance(each, Enum) for each in choice)
    for kind in (str, bool, int):
        # `bool` is an `int` to Python, and not to a column.
        if given and all(isinstance(value, kind) and isinstance(value, bool) == (kind is bool) for value in given):
            return Shape(_SCALARS[kind], nullable=len(given) < len(values), enums=enums)
    return None


def _struct(model: object) -> Shape | None:
    """A model of scalars. Any other is none, and can be held as JSON."""
    if not _is_class(model, BaseModel) or not _is_fixed(model):
        return None
    fields: dict[str, ColumnDeclaration] = {}
    enums = False
    for name, field in stored_fields(model):
        shape = _inner(_unwrapped(field.annotation, field.metadata))
        if shape is None or shape.as_json:
            return None
        _check_key(name, field, model)
        fields[stored_name(name, field)] = spelled(shape.column, shape.nullable)
        enums = enums or shape.enums
    return Shape(Struct(fields), enums=enums) if fields else None


def _is_fixed(model: type[BaseModel]) -> bool:
    """Whether what pydantic makes of the model has its fields and nothing else."""
    return model.model_config.get("extra") != "allow" and not model.__pydantic_decorators__.model_serializers


def _check_key(name: str, field: FieldInfo, model: type[BaseModel]) -> None:
    stored = stored_name(name, field)
    if read_name(name, field, model) != stored:
        raise UnfitError(
            f"`{model.__name__}.{name}` is written as `{stored}` and not read by that name; "
            "give it one alias for both: `Field(alias=…)`"
        )


def _inner(bare: _Bare) -> Shape | None:
    """A scalar, as one is part of a struct or of a list."""
    column = _named(bare)
    if column is None:
        return None if (shape := _scalar(bare)) is None else replace(shape, nullable=_nullable(bare, shape))
    scalar = column["type"] not in ("json", "list", "struct", "vector") and not is_blob(column)
    return _as_named(bare, column) if scalar else None


def _list(annotation: Annotation) -> Shape | None:
    """A list of scalars or of models of scalars. Any other is none, and can be held as JSON."""
    item = _item(annotation)
    if item is None:
        return None
    bare = _unwrapped(item, ())
    shape = _inner(bare) or (None if _named(bare) else _struct(bare.annotation))
    if shape is None and bare.annotation is decimal.Decimal:
        raise UnfitError(_advice(bare.annotation))
    return None if shape is None else replace(shape, column=List(shape.column), nullable=False)


def _json(annotation: Annotation) -> Shape | None:
    """What JSON alone can hold: anything, mappings, and models and lists that are no columns by themselves."""
    anything = annotation in _ANYTHING
    members = typing.get_args(annotation) if typing.get_origin(annotation) is Union else (annotation,)
    models = all(_is_class(member, BaseModel) for member in members)
    record = _is_record(annotation)
    if not (anything or models or record or _container(annotation) in _MAPPINGS or _is_list(annotation)):
        return None
    plain = _is_plain(annotation, [])
    return Shape(Json(), nullable=anything, as_json=not plain) if plain or _has_json(annotation) else None


def _is_record(annotation: Annotation) -> bool:
    return typing_extensions.is_typeddict(annotation) or (isinstance(annotation, type) and is_dataclass(annotation))


class _QuietSchema(GenerateJsonSchema):
    """JSON schemas are made to see whether there is one, whatever the defaults in it."""

    def emit_warning(self, kind: JsonSchemaWarningKind, detail: str) -> None:
        """Nobody reads the schema."""


def _has_json(annotation: Annotation) -> bool:
    """Whether pydantic knows a form in JSON for everything in an annotation."""
    try:
        TypeAdapter(cast("type[object]", annotation)).json_schema(mode="serialization", schema_generator=_QuietSchema)
    except PydanticUndefinedAnnotation:
        # A name that only the module of its model can resolve, which has done so.
        return True
    except PydanticUserError:
        return False
    return True


def _is_plain(annotation: Annotation, seen: list[object]) -> bool:
    """Whether the values of an annotation are what JSON has, or are left to the store to judge.

    Raises:
        UnfitError: They hold what would not come back out of JSON as it was.
    """
    annotation = _unwrapped(annotation, ()).annotation
    if annotation in _JSON_SCALARS or annotation in _ANYTHING or annotation in seen:
        return True
    seen.append(annotation)
    if annotation in _BYTES:
        raise UnfitError("JSON holds no bytes; make them a column of their own")
    if _is_class(annotation, BaseModel):
        return _is_plain_model(annotation, seen)
    if typing.get_origin(annotation) is Literal:
        if any(map(_is_member, typing.get_args(annotation))):
            raise UnfitError(_advice(annotation))
        return all(type(value) in _JSON_SCALARS for value in typing.get_args(annotation))
    container, arguments = _container(annotation), typing.get_args(annotation)
    if container in _MAPPINGS and arguments and _scalar(_unwrapped(arguments[0], ())) is None:
        raise UnfitError("the keys in JSON are strings, or scalars that pydantic turns into such")
    plain = container in _PLAIN_CONTAINERS
    for argument in arguments:
        # Each is looked at, since any may hold what JSON cannot.
        plain = (argument is Ellipsis or _is_plain(argument, seen)) and plain
    return plain and (container is not dict or not arguments or bare_class(arguments[0]) is str)


def _is_plain_model(model: type[BaseModel], seen: list[object]) -> bool:
    plain = not model.__pydantic_decorators__.model_serializers
    for name, field in stored_fields(model):
        _check_key(name, field, model)
        try:
            plain = _is_plain(field.annotation, seen) and plain
        except UnfitError as error:
            raise UnfitError(f"`{model.__name__}.{name}`: {error}") from None
    return plain


def _container(annotation: Annotation) -> object:
    """The class of a container, with or without what is in it."""
    return typing.get_origin(annotation) or annotation


def _is_list(annotation: Annotation) -> bool:
    container, arguments = _container(annotation), typing.get_args(annotation)
    return container in _LISTS or (container is tuple and (not arguments or arguments[1:] == (Ellipsis,)))


def _item(annotation: Annotation) -> object | None:
    arguments = typing.get_args(annotation)
    return arguments[0] if arguments and _is_list(annotation) else None


def _is_class(annotation: Annotation, base: type[_T]) -> TypeGuard[type[_T]]:
    return isinstance(annotation, type) and issubclass(annotation, base)
