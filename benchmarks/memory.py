"""Memory of this process: what of it is resident, and how to have some at hand before a measurement.

What is resident comes from /proc: `ru_maxrss` will not do, as it survives exec and cannot be reset.
"""

import ctypes
import mmap
import sys
from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")


def _field(name: str) -> int:
    if not _STATUS.exists():
        return 0
    for line in _STATUS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1_024
    return 0


def rss_bytes() -> int:
    """Resident now; 0 where the system does not tell."""
    return _field("VmRSS")


def peak_rss_bytes() -> int:
    """The most that was resident since `reset_peak_rss`, or since the start."""
    return _field("VmHWM")


def reset_peak_rss() -> None:
    """Lets the peak start again from what is in use now, where the system allows it.

    Memory that was freed goes back to the system first: reusing it would not show in the peak.
    """
    with suppress(AttributeError):  # glibc only
        ctypes.CDLL(None).malloc_trim(0)
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


_MADV_POPULATE_WRITE = 23
"""Missing in `mmap` (`man 2 madvise`)."""


def warm(size: int) -> None:
    """Writes to `size` bytes of memory and frees them, so that what is allocated next is likely to be these.

    A virtual machine can give pages that were free for two seconds back to its host (free page reporting), and a first
    write to such a page takes ten times as long as a later one. A figure would depend on what ran before.
    """
    if sys.platform == "linux" and size > 0:
        with mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as memory:
            # Neither is there on every kernel.
            for advice in (mmap.MADV_HUGEPAGE, _MADV_POPULATE_WRITE):
                with suppress(OSError):
                    memory.madvise(advice)
