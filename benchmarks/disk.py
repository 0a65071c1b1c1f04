"""What a directory takes up."""

from dataclasses import dataclass
from pathlib import Path

_COMPILED = "__pycache__"


@dataclass(frozen=True)
class DiskUse:
    """`size_bytes` is the length of the files, `disk_bytes` the blocks that hold them."""

    files: int
    size_bytes: int
    disk_bytes: int


def disk_use(directory: Path) -> DiskUse:
    """Counts the files at and below a directory, except what Python compiled there."""
    found = [path.stat() for path in directory.rglob("*") if path.is_file() and _COMPILED not in path.parts]
    return DiskUse(
        len(found),
        sum(one.st_size for one in found),
        sum(one.st_blocks * 512 for one in found),
    )
