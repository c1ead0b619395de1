"""The example's library, built once for all of these tests."""

import fcntl

import pytest
from example_build import FOLDER, build


@pytest.fixture(scope="session")
def plugin():
    """The path of the example's library. Test processes wait for the one that builds it."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build()
    return FOLDER / "build/example.so"
