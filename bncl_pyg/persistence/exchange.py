"""Two folders that change places at once, where the system can do that."""

import ctypes
import os
from collections.abc import Callable
from pathlib import Path

_HERE = -100
"""AT_FDCWD: paths are as they are given."""
_EXCHANGE = 2
"""RENAME_EXCHANGE of Linux."""


def exchange(first: Path, second: Path) -> bool:
    """Let two paths change places in one step; return whether that was possible, and do nothing where it is not."""
    rename = _renameat2()
    if rename is None:
        return False
    # Some file systems (of networks, for instance) refuse it; whoever calls then renames twice.
    return rename(_HERE, os.fsencode(first), _HERE, os.fsencode(second), _EXCHANGE) == 0


def _renameat2() -> Callable[[int, bytes, int, bytes, int], int] | None:
    try:
        function = ctypes.CDLL(None).renameat2
    except (AttributeError, OSError):  # another system than Linux, or a C library that lacks it
        return None
    function.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint)
    function.restype = ctypes.c_int
    return function
