"""Stored values as the types that a caller asks for."""

from __future__ import annotations

import functools
import typing
from collections.abc import Awaitable, Callable, Coroutine
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


class _Missing(Enum):
    """Tells an argument that was left out from ``None``."""

    MISSING = "missing"


Missing: TypeAlias = _Missing
MISSING: Final = _Missing.MISSING

# Types of stored values as they are; pydantic, which takes a moment to import, makes every other one.
_PLAIN: frozenset[object] = frozenset({str, int, float, bool, bytes, list, dict, type(None)})


def typed(value: object, type: type[T], what: str) -> T:
    """Returns `value` as a `type`.

    Args:
        value: A stored value.
        type: A type of stored values, a pydantic model, or anything else that pydantic validates.
        what: What the value is, for messages.

    Raises:
        TypeError: It is of another of the types that are stored as they are.
        pydantic.ValidationError: It is no such value.
    """
    if type is cast("Any", object) or type is cast("Any", Any):
        return cast("T", value)
    if type not in _PLAIN:
        return cast("T", _adapter(type).validate_python(value))
    if type is cast("Any", float) and isinstance(value, int) and not isinstance(value, bool):
        return cast("T", float(value))
    if not isinstance(value, type) or (type is cast("Any", int) and isinstance(value, bool)):
        raise TypeError(f"{what} holds `{_name(value)}`, not `{type.__name__}`")
    return cast("T", value)


def declared_result(function: Callable[..., object]) -> object:
    """Returns what a function is annotated to return, a coroutine's result; ``None`` if it does not say."""
    while isinstance(function, functools.partial):
        function = cast("functools.partial[object]", function).func
    if isinstance(function, type):
        return function
    try:
        hints = typing.get_type_hints(function)
    except (AttributeError, NameError, TypeError):
        return None  # names that only a type checker knows, or no function
    hint = hints.get("return")
    if typing.get_origin(hint) in (Awaitable, Coroutine):
        return typing.get_args(hint)[-1]
    return hint


def holds_model(hint: object) -> bool:
    """Whether an annotation is of a pydantic model, or of something with one in it."""
    return hasattr(hint, "model_validate") or any(holds_model(part) for part in typing.get_args(hint))


def is_model(value: object) -> bool:
    """Whether a value is a pydantic model."""
    return hasattr(value, "model_dump") and hasattr(value, "model_fields_set") and not isinstance(value, type)


@functools.lru_cache(maxsize=256)
def _adapter(type: type[T]) -> TypeAdapter[T]:
    from pydantic import TypeAdapter

    return TypeAdapter(type)


def _name(value: object) -> str:
    return type(value).__name__
