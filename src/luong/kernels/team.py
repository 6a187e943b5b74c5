"""Loops over rows that torch's own threads share.

The products of a step wake torch's OpenMP threads hundreds of times, and these look out for more
work for a while. Threads of our own would fight with them for the cores, and Python takes longer to
wake one than most loops of a step take. So such a loop is a C function, which OpenMP calls in each
of torch's threads: to share it costs some two microseconds.

Where torch has another way to its threads the loop is shared by `threads`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import threading
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from luong.kernels.compiled import c_function, numbers
from luong.kernels.threads import share

# Terms of a sum below which waking a thread costs more than it saves.
SMALL = 2**17

_Range = ctypes.CFUNCTYPE(None, ctypes.c_ssize_t, ctypes.c_ssize_t, ctypes.c_ssize_t)
_lock = threading.Lock()


class _OpenMP(NamedTuple):
    """What torch's OpenMP library gives.

    Attributes:
        parallel: Calls a function of one address in so many threads.
        place: Address of the function that gives a thread its number.
        size: Address of the function that says how many threads there are.
    """

    parallel: Callable[..., None]
    place: int
    size: int


def _find_openmp() -> _OpenMP | None:
    if "OpenMP" not in torch.__config__.parallel_info():
        return None
    for path in sorted((Path(torch.__file__).parent / "lib").glob("lib*omp*")):
        try:
            library = ctypes.CDLL(str(path))
            parallel = library.GOMP_parallel
            parallel.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint)
            parallel.restype = None
            number, size = library.omp_get_thread_num, library.omp_get_num_threads
        except (OSError, AttributeError):
            continue
        return _OpenMP(
            parallel, *(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in (number, size))
        )
    return None


_openmp = _find_openmp()


def _forget() -> None:
    """Drop OpenMP's threads, which do not live in a forked child, and the lock's state."""
    global _lock, _openmp
    _lock, _openmp = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _call_with_range(_: Any, function: Any, first: Any, last: Any, call: Any) -> Any:
    """Type and code of calling what lies at an address with three integers."""

    def build(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        integer = context.get_value_type(types.intp)
        kind = ir.FunctionType(ir.VoidType(), [integer] * 3).as_pointer()
        builder.call(builder.inttoptr(arguments[0], kind), arguments[1:])
        return context.get_dummy_value()

    return types.void(function, first, last, call), build


def _call_for_number(_: Any, function: Any) -> Any:
    """Type and code of calling what lies at an address for an int."""

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), []).as_pointer()
        return builder.call(builder.inttoptr(arguments[0], kind), [])

    return types.int32(function), build


_run: Any = intrinsic(_call_with_range)
_ask: Any = intrinsic(_call_for_number)


def _part(job: int) -> None:
    """What one thread does of a job: the rows of its number."""
    place, size, loop, rows, call = numbers(job, 5)
    own, threads = _ask(place), _ask(size)
    _run(loop, rows * own // threads, rows * (own + 1) // threads, call)


class Loop:
    """A loop over rows, compiled at its first call; it runs without the interpreter lock.

    How the rows are cut never changes a sum, where no sum is over rows: results are the same to
    the last bit for any number of threads.

    Args:
        function: Takes the first row, the row after the last, and the address of the numbers of a
            call, which `compiled.numbers` gives it. It must not raise, nor call another `Loop`.

    Example:
        >>> @Loop
        ... def double(first, last, call):
        ...     address, size = numbers(call, 2)
        ...     rows = floats(address, last, size)
        ...     for row in range(first, last):
        ...         rows[row] *= 2
        >>> double(len(tensor), tensor.shape[1], tensor.data_ptr(), tensor.shape[1])
    """

    def __init__(self, function: Callable[[int, int, int], None]) -> None:
        functools.update_wrapper(self, function)

    def __call__(self, rows: int, work: int, *call: int) -> None:
        """Run over all rows.

        Args:
            rows: How many.
            work: What one takes, in terms of a sum.
            call: Addresses, sizes, flags, and floats by their `bits`. What lies at the addresses
                must stay alive during the call.
        """
        run, given = self._range, array("q", call)
        address = given.buffer_info()[0]
        threads = 1 if rows * work <= SMALL else min(rows, torch.get_num_threads())
        if threads < 2:
            run(0, rows, address)
        elif _openmp is None:
            cuts = [rows * part // threads for part in range(threads + 1)]
            share(lambda part: run(cuts[part], cuts[part + 1], address), threads)
        else:
            job = array("q", (_openmp.place, _openmp.size, self._address, rows, address))
            _openmp.parallel(_shared_part(), job.buffer_info()[0], threads, 0)

    @functools.cached_property
    def _address(self) -> int:
        arguments = types.intp, types.intp, types.intp
        return _compile(types.void(*arguments), self.__wrapped__)  # type: ignore[attr-defined]

    @functools.cached_property
    def _range(self) -> Callable[[int, int, int], None]:
        return _Range(self._address)


@functools.cache
def _shared_part() -> int:
    return _compile(types.void(types.intp), _part)


_functions: list[Any] = []  # An address is good as long as its function lives.


def _compile(signature: Any, function: Callable[..., None]) -> int:
    with _lock:
        _functions.append(c_function(signature, function))
        return _functions[-1].address  # type: ignore[no-any-return]


def bits(number: float) -> int:
    """A float32 among the integers of a call; `compiled.number` takes it back.

    Example:
        >>> bits(1.0)
        1065353216
    """
    return int(struct.unpack("i", struct.pack("f", number))[0])
