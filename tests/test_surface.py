"""The public surface: what is exported, that the twins match, and that every error has its class."""

import doctest
import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import lance_context
import lance_context.datagen
import lance_context.datagen_reads
import lance_context.datagen_writer
import lance_context.errors
import lance_context.generic
import lance_context.generic_reads
import lance_context.generic_transfer
import lance_context.generic_writes
import lance_context.item
import lance_context.schema
from lance_context import (
    AsyncDatagenStore,
    AsyncGenericStore,
    AsyncItemStream,
    AsyncStep,
    DatagenStore,
    GenericStore,
    ItemStream,
    LanceContextError,
    Step,
    UnavailableError,
)
from lance_context._base import BaseHandle

ROOT = Path(__file__).parent.parent
TWINS = [
    (GenericStore, AsyncGenericStore),
    (DatagenStore, AsyncDatagenStore),
    (ItemStream, AsyncItemStream),
    (Step, AsyncStep),
]
# Plain functions in both twins: an opening is awaitable and a context manager, so is a stream and a step, and an
# iterator is asked later. What both inherit from one base does no I/O.
PLAIN = {"open", "open_existing", "schema", "iter", "batches", "stream", "step", "events"}
# Take a function, which in one twin is a coroutine function.
CALLING = {"once", "run"}


def public(owner: object) -> dict[str, object]:
    return {name: member for name, member in inspect.getmembers(owner) if not name.startswith("_")}


def error_classes() -> list[type[LanceContextError]]:
    classes = vars(lance_context.errors).values()
    return [c for c in classes if isinstance(c, type) and issubclass(c, LanceContextError)]


def codes_by_kind() -> dict[str, set[str]]:
    """The two tables of the engine, read from its source: kind by variant and code by variant."""
    source = (ROOT / "rust/spec/src/error.rs").read_text()
    kinds, codes = source.split("pub const fn kind", 1)[1].split("pub const fn code", 1)
    kind_of = {
        variant: kind
        for arms, kind in re.findall(r"((?:\|?\s*Self::\w+(?: \{ \.\. \})?\s*)+)=> \{?\s*Kind::(\w+)", kinds)
        for variant in re.findall(r"Self::(\w+)", arms)
    }
    code_of = dict(re.findall(r'Self::(\w+)(?: \{ \.\. \})? => "([a-z-]+)"', codes.split("pub const fn", 1)[0]))
    assert kind_of.keys() == code_of.keys()
    assert code_of
    table: dict[str, set[str]] = {}
    for variant, kind in kind_of.items():
        table.setdefault(kind, set()).add(code_of[variant])
    return table


def test_all_is_sorted_and_complete() -> None:
    exported = lance_context.__all__
    assert exported == sorted(exported)
    members = {name: getattr(lance_context, name) for name in dir(lance_context) if not name.startswith("_")}
    names = {name for name, member in members.items() if not inspect.ismodule(member)}
    assert set(exported) == names | {"__version__"}


@pytest.mark.parametrize(("sync", "twin"), TWINS)
def test_twins_have_the_same_methods(sync: type, twin: type) -> None:
    assert public(sync).keys() == public(twin).keys()


def parameters(name: str, member: Callable[..., object]) -> list[inspect.Parameter]:
    found = inspect.signature(member).parameters.values()
    return [one.replace(annotation=None) if name in CALLING else one for one in found]


@pytest.mark.parametrize(("sync", "twin"), TWINS)
def test_twins_take_the_same_arguments(sync: type, twin: type) -> None:
    for name, member in public(sync).items():
        other = getattr(twin, name)
        if member is other:
            continue
        if isinstance(member, property):
            assert isinstance(other, property)
        elif callable(member):
            assert parameters(name, member) == parameters(name, other), name
            assert inspect.iscoroutinefunction(other) == (name not in PLAIN), name
            assert not inspect.iscoroutinefunction(member), name


@pytest.mark.parametrize(("sync", "twin"), TWINS)
def test_every_method_is_documented(sync: type, twin: type) -> None:
    for name, member in public(sync).items():
        assert member.__doc__, name
        if callable(member) and member is not getattr(twin, name) and not hasattr(BaseHandle, name):
            assert "Example:" in member.__doc__, name
            assert getattr(twin, name).__doc__.startswith(f"Async form of `{sync.__name__}.{name}`"), name


def test_every_code_of_the_engine_has_a_documented_class() -> None:
    for kind, codes in codes_by_kind().items():
        if kind == "Argument":
            continue  # Python's own ValueError
        documented = re.findall(r"``([a-z-]+)``", inspect.getdoc(getattr(lance_context, f"{kind}Error")) or "")
        assert codes <= set(documented), kind


def test_every_documented_code_exists() -> None:
    known = set[str]().union(*codes_by_kind().values())
    for error in error_classes():
        _, _, codes = (error.__doc__ or "").partition("Codes:")
        assert set(re.findall(r"``([a-z-]+)``", codes)) <= known, error


def test_the_bridge_names_existing_classes() -> None:
    named = re.findall(r'"(\w+Error)"', (ROOT / "rust/python/src/errors.rs").read_text())
    assert named
    assert all(issubclass(getattr(lance_context, name), LanceContextError) for name in named)


@pytest.mark.parametrize("error", error_classes(), ids=lambda error: error.__name__)
def test_an_error_survives_pickling(error: type[LanceContextError]) -> None:
    raised = error("what happened", code="wrong-type", retryable=True, row=3, column="score")
    copy = pickle.loads(pickle.dumps(raised))
    assert type(copy) is error
    assert str(copy) == "what happened"
    assert (copy.code, copy.retryable, copy.row, copy.column) == ("wrong-type", True, 3, "score")


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(lance_context.SchemaError, ValueError)
    assert issubclass(lance_context.RowError, ValueError)
    assert issubclass(lance_context.QueryError, ValueError)
    assert issubclass(lance_context.NotFoundError, LookupError)
    assert issubclass(lance_context.AuthError, PermissionError)
    assert issubclass(lance_context.StorageError, OSError)
    assert issubclass(lance_context.FencedError, lance_context.ConflictError)
    assert issubclass(UnavailableError, (lance_context.StorageError, ConnectionError))
    assert UnavailableError("try later").retry_after is None


@pytest.mark.parametrize(
    "module",
    [
        lance_context.generic,
        lance_context.generic_reads,
        lance_context.generic_transfer,
        lance_context.generic_writes,
        lance_context.schema,
        lance_context.datagen,
        lance_context.datagen_reads,
        lance_context.datagen_writer,
        lance_context.item,
    ],
    ids=lambda module: module.__name__,
)
def test_examples_run(module: ModuleType) -> None:
    # Not compiled as the module is, whose annotations are text: an example stands for a program.
    names = {name: value for name, value in vars(module).items() if name != "annotations"}
    result = doctest.testmod(module, globs=names)
    assert result.attempted > 0
    assert result.failed == 0


def run(program: str) -> str:
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_import_is_light() -> None:
    heavy = {"pyarrow", "pydantic", "numpy", "asyncio", "typing_extensions", "lance_context.datagen_types"}
    assert run(f"import sys, lance_context; print({heavy} & set(sys.modules))") == "set()"


def test_names_are_there_before_they_are_used() -> None:
    """The half of the package that is imported on demand looks no different from the other one."""
    every = "import lance_context as lc; print(set(lc.__all__) - set(dir(lc)), hasattr(lc, 'Datagenstore'))"
    assert run(every) == "set() False"
    starred = "from lance_context import *; import lance_context as lc; print(set(lc.__all__) - set(globals()))"
    assert run(starred) == "set()"
    assert run("from lance_context import ItemId, DatagenStore as D; print(D.__module__)") == "lance_context.datagen"
