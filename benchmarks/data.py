"""The rows that every workload writes and expects back.

A row depends on its number alone, so a process that only reads can rebuild what another one wrote. Vector
components and scores are multiples of a power of two that float32 holds exactly: a value that comes back
different was damaged, not rounded.
"""

import random
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, cast

Row: TypeAlias = dict[str, object]

DIM = 768
TEXT_BYTES = 300
SEED = 20_240_229
SCORE_STEPS = 4_096
SCORE_FLOOR = 0.99
"""`score > SCORE_FLOOR` selects one row in a hundred."""

_WORDS = ("context ", "vector ", "reward ", "episode ", "policy ", "token ", "rollout ", "sample ")


class CheckError(Exception):
    """An engine answered, and the answer is wrong."""


def row_id(number: int) -> str:
    """Sorts like the number."""
    return f"row-{number:08d}"


def score(number: int) -> float:
    """In [0, 1), spread evenly over any run of row numbers."""
    return (number * 2_531 % SCORE_STEPS) / SCORE_STEPS


def vector(number: int) -> list[float]:
    """`DIM` components in [-1, 1) with 24 significant bits each, as dense as real embeddings are."""
    bits = array("I", random.Random(SEED + number).randbytes(4 * DIM))
    return [(word >> 8) / 8_388_608 - 1.0 for word in bits]


def prose(rng: random.Random) -> str:
    """`TEXT_BYTES` of words."""
    return "".join(rng.choices(_WORDS, k=TEXT_BYTES // 5))[:TEXT_BYTES]


def row(number: int) -> Row:
    """One row of the shape that performance figures are quoted for: 768 x f32 and 300 bytes of text."""
    return {
        "id": row_id(number),
        "user": f"user-{number % 100}",
        "score": score(number),
        "vec": vector(number),
        "text": prose(random.Random(-number - 1)),
        "blob": None,
    }


def rows(numbers: Iterable[int]) -> list[Row]:
    """The rows with these numbers, in that order."""
    return [row(number) for number in numbers]


def blob(size: int, number: int = 0) -> bytes:
    """Incompressible bytes."""
    return random.Random(SEED - 1 - number).randbytes(size)


def blob_row(number: int, size: int) -> Row:
    """The row of that number with a blob of `size` bytes in it."""
    return {**row(number), "blob": blob(size, number)}


def check(condition: bool, message: str) -> None:
    """Raises `CheckError` with `message` unless `condition` holds."""
    if not condition:
        raise CheckError(message)


def check_ids(got: Sequence[Mapping[str, object]], numbers: Iterable[int]) -> None:
    """Exactly these rows are there, each once, in any order."""
    expected = sorted(row_id(number) for number in numbers)
    found = sorted(str(one["id"]) for one in got)
    if found != expected:
        missing = sorted(set(expected) - set(found))
        strange = sorted(set(found) - set(expected))
        raise CheckError(
            f"expected {len(expected)} rows, got {len(found)} ({len(set(found))} distinct): "
            f"{len(missing)} missing {missing[:3]}, {len(strange)} unexpected {strange[:3]}"
        )


def check_row(got: Mapping[str, object] | None, number: int, *, with_vector: bool = True) -> None:
    """`got` is the row of that number, to the last bit, with its blob null or left out."""
    expected = row(number)
    if got is None:
        raise CheckError(f"`{expected['id']}` is missing")
    for column in ("id", "user", "score", "text"):
        check(
            got.get(column) == expected[column],
            f"`{expected['id']}`.{column}: {got.get(column)!r} instead of {expected[column]!r}",
        )
    check(got.get("blob") is None, f"`{expected['id']}` carries a blob that nobody asked for")
    if with_vector:
        vec = got.get("vec")
        check(isinstance(vec, list), f"`{expected['id']}`.vec is a {type(vec).__name__}, not a list")
        check(vec == expected["vec"], f"`{expected['id']}`.vec differs from what was written")
    else:
        check("vec" not in got, f"`{expected['id']}` carries the vector that was left out")


def check_blob(got: Mapping[str, object] | None, number: int, size: int) -> None:
    """`got` holds the blob of that row, byte for byte."""
    content = None if got is None else got.get("blob")
    if not isinstance(content, bytes):
        raise CheckError(f"the blob of `{row_id(number)}` is a {type(content).__name__}, not bytes")
    check(len(content) == size, f"the blob of `{row_id(number)}` has {len(content)} bytes instead of {size}")
    check(content == blob(size, number), f"the blob of `{row_id(number)}` differs from what was written")


def as_numbers(value: object) -> list[float]:
    """A cell of the vector column on its way in, for engines that store it as packed bytes."""
    return cast("list[float]", value)
