"""What test modules share: the `soak` mark, how far hypothesis looks, and where and how a store is opened."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.twins import Opener

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The same examples at each run; how long one takes is no failure.
settings.register_profile(
    "short",
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=25,
    stateful_step_count=20,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
settings.register_profile(
    "soak",
    settings.get_profile("short"),
    derandomize=False,
    max_examples=int(os.environ.get("LANCE_CONTEXT_SOAK_EXAMPLES", "200")),
    stateful_step_count=50,
    print_blob=True,
)


def pytest_configure(config: pytest.Config) -> None:
    """Declare the mark of the long tests."""
    config.addinivalue_line("markers", "soak: long form of a test; run with `make soak`")
    settings.load_profile("short")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long tests out unless a mark expression asks for them."""
    expression = str(config.getoption("markexpr", default=""))
    if "soak" in expression:
        return
    soak = [item for item in items if item.get_closest_marker("soak")]
    if soak:
        config.hook.pytest_deselected(items=soak)
        items[:] = [item for item in items if item not in soak]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a test's store goes; nothing is there yet."""
    return tmp_path / "store"


@pytest.fixture(params=["sync", "async"])
def stores(request: pytest.FixtureRequest) -> Iterator[Opener]:
    """Opens stores of the one class and of the other."""
    if request.param == "sync":
        opener = Opener(None)
        yield opener
        opener.close()
        return
    loop = asyncio.new_event_loop()
    opener = Opener(loop)
    yield opener
    opener.close()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
