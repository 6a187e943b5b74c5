"""How the CPU kernels are compiled, and the exponential they share."""

from __future__ import annotations

import functools
import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])

# Never nnan or ninf, which `fastmath=True` would add: the compiler then takes an estimate of the
# reciprocal that makes NaN of infinity, and NaN in the data would not come out.
FLAGS = {"reassoc", "contract", "nsz", "arcp"}


def sources(folder: Path) -> str:
    """A short digest of the files whose loops are compiled: a loop may inline one of another file.

    Args:
        folder: Where those files lie; one that has none gives a digest too.
    """
    digest = hashlib.sha256()
    for path in [*sorted(folder.glob("cpu_*.py")), *sorted(folder.glob("compiled.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


_SOURCES = sources(Path(__file__).parent)


def compiled(function: Function) -> Function:
    """Compile a loop over arrays at its first call; it runs without the interpreter lock.

    The machine code is kept on disk where numba finds a folder it can write to.

    Args:
        function: Plain loops over C-contiguous float32 arrays.
    """
    return cast(Function, _kept(njit, function, nogil=True))


def c_function(signature: Any, function: Callable[..., None]) -> Any:
    """Compile a loop at once to a function that C can call, with an `address`; kept as well.

    Args:
        signature: In numba's types.
        function: Plain loops or arithmetic.
    """
    return _kept(functools.partial(numba.cfunc, signature), function)


def _kept(compiler: Callable[..., Any], function: Callable[..., Any], **options: Any) -> Any:
    # Numba's cache goes by a function's name and its own file alone. The digest in the name makes
    # it notice a change in any file that the function may have inlined from.
    function.__qualname__ += f"-{_SOURCES}"
    options |= {"error_model": "numpy", "fastmath": FLAGS}
    try:
        return compiler(cache=True, **options)(function)
    except RuntimeError:  # No folder for the cache: compile anew in every process.
        return compiler(**options)(function)


def inlined(function: Function) -> Function:
    """Compile a loop into every loop that calls it.

    Called as a function it would be a copy in each of them, optimised apart; which of the copies
    runs differs between loops just compiled and the same from the disk, and so does the last bit.

    Args:
        function: Plain loops or arithmetic, reassociated as in `compiled`.
    """
    return njit(error_model="numpy", nogil=True, fastmath=FLAGS, forceinline=True)(function)


def njit(**options: Any) -> Callable[[Function], Function]:
    """Compile by options of numba's; `compiled` is for what all loops have in common."""
    return cast(Callable[[Function], Function], numba.njit(**options))


def _typed_pointer(_: Any, __: Any) -> Any:
    """Type and code of the pointer that an address stands for."""

    def build(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.intp), build


_pointer: Any = intrinsic(_typed_pointer)
_array_at: Any = numba.carray  # type: ignore[attr-defined]


def _unpack(_: Any, address: Any, count: Any) -> Any:
    """Type and code of so many integers at an address."""
    if not isinstance(count, types.IntegerLiteral):
        return None
    length = count.literal_value

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        integer = context.get_value_type(types.int64)
        start = builder.inttoptr(arguments[0], integer.as_pointer())
        places = (builder.gep(start, [integer(place)]) for place in range(length))
        values = [builder.load(place) for place in places]
        return context.make_tuple(builder, signature.return_type, values)

    made: Any = types.UniTuple(types.int64, length)  # type: ignore[no-untyped-call]
    return made(address, count), build


numbers: Any = intrinsic(prefer_literal=True)(_unpack)
"""numbers(address, count): a tuple of the int64 numbers at an address, a constant count of them."""


@inlined
def number(bits: int) -> np.float32:
    """The float32 of these bits."""
    return np.int32(bits).view(np.float32)


# Loops are handed addresses of tensors: a numpy array of each would take longer than small loops.


@inlined
def floats(address: int, rows: int, columns: int) -> NDArray[np.float32]:
    """The array (rows, columns) of float32 at an address."""
    array: NDArray[np.float32] = _array_at(_pointer(address), (rows, columns), np.float32)
    return array


@inlined
def halves(address: int, rows: int, columns: int) -> NDArray[np.uint16]:
    """The array (rows, columns) at an address of numbers of 16 bits, by their bits."""
    array: NDArray[np.uint16] = _array_at(_pointer(address), (rows, columns), np.uint16)
    return array


@inlined
def octets(address: int, rows: int, columns: int) -> NDArray[np.int8]:
    """The array (rows, columns) of int8 at an address."""
    array: NDArray[np.int8] = _array_at(_pointer(address), (rows, columns), np.int8)
    return array


@inlined
def words(address: int, rows: int, columns: int) -> NDArray[np.int32]:
    """The array (rows, columns) of int32 at an address."""
    array: NDArray[np.int32] = _array_at(_pointer(address), (rows, columns), np.int32)
    return array


@inlined
def integers(address: int, rows: int, columns: int) -> NDArray[np.int64]:
    """The array (rows, columns) of int64 at an address."""
    array: NDArray[np.int64] = _array_at(_pointer(address), (rows, columns), np.int64)
    return array


@inlined
def flags(address: int, rows: int, columns: int) -> NDArray[np.bool_]:
    """The array (rows, columns) of bool at an address."""
    array: NDArray[np.bool_] = _array_at(_pointer(address), (rows, columns), np.bool_)
    return array


_TWO_LOG2_E = np.float32(2 / math.log(2))
# Half of ln 2 in two parts; a product of the first with an integer below 2^8 is exact.
_HALF_LN2_HIGH = np.float32(0.3466796875)
_HALF_LN2_LOW = np.float32(math.log(2) / 2 - 0.3466796875)
_ROUNDER = np.float32(1.5 * 2.0**23)
_C1, _C2, _C3, _C4, _C5, _C6, _C7 = (np.float32(2**n / math.factorial(n)) for n in range(1, 8))
_ONE = np.float32(1.0)
_BIAS = np.int32(127)
_MANTISSA = np.int32(23)

LARGEST = np.float32(43.0)
"""Beyond it tanh is 1 to the last bit, and below it e^(2x) is a normal float32."""


# Not `reassoc`: it would drop the two sums.
@njit(error_model="numpy", nogil=True, fastmath={"contract"}, forceinline=True)
def nearest(x: np.float32) -> np.float32:
    """The whole number nearest to x, of two the even one, for |x| below 2^22."""
    return (x + _ROUNDER) - _ROUNDER


# Not `reassoc`: it would join the two parts of ln 2 again, and lose four bits.
@njit(error_model="numpy", nogil=True, fastmath={"contract"}, forceinline=True)
def exponential(x: np.float32) -> np.float32:
    """e^(2x) of x held within +-LARGEST, to about one unit in the last place; NaN stays NaN.

    A range reduction by powers of two and a Taylor polynomial of degree 7: unlike `math.exp` it
    vectorises inside a loop.
    """
    x = LARGEST if x > LARGEST else x
    x = -LARGEST if x < -LARGEST else x
    rounded = x * _TWO_LOG2_E + _ROUNDER  # The integer stands in the low bits of the mantissa.
    power = rounded - _ROUNDER
    rest = (x - power * _HALF_LN2_HIGH) - power * _HALF_LN2_LOW
    tail = _C2 + rest * (_C3 + rest * (_C4 + rest * (_C5 + rest * (_C6 + rest * _C7))))
    bits = np.float32(rounded).view(np.int32)
    scale = np.int32((bits + _BIAS) << _MANTISSA).view(np.float32)
    return (_ONE + (rest * _C1 + rest * rest * tail)) * scale


_SIGN = np.int32(31)
_ALL_BUT_SIGN = np.int32(0x7FFFFFFF)


@njit(error_model="numpy", nogil=True, forceinline=True)
def _ordered(bits: np.int32) -> np.int32:
    """Integers in the order of the floats that have these bits; its own inverse."""
    return np.int32(bits ^ (np.int32(bits >> _SIGN) & _ALL_BUT_SIGN))


@njit(error_model="numpy", nogil=True, forceinline=True)
def largest(values: NDArray[np.float32]) -> np.float32:
    """The largest of the values, -inf of none; NaN, or the largest of the others, where one is NaN.

    Taken over integers: the maximum of floats that may be NaN does not vectorise.
    """
    found = _ordered(np.float32(-np.inf).view(np.int32))
    for c in range(values.shape[0]):
        value = _ordered(np.float32(values[c]).view(np.int32))
        found = value if value > found else found
    return np.int32(_ordered(found)).view(np.float32)


@njit(error_model="numpy", nogil=True, forceinline=True)
def largest_magnitude(values: NDArray[np.float32]) -> np.float32:
    """The largest absolute value, 0 of none; NaN if there is one."""
    found = np.int32(0)
    for c in range(values.shape[0]):
        # As integers magnitudes keep their order, and NaN lies above infinity.
        bits = np.int32(np.float32(values[c]).view(np.int32) & _ALL_BUT_SIGN)
        found = bits if bits > found else found
    return np.int32(found).view(np.float32)


_SIXTEEN = np.int32(16)
_LAST_BIT = np.int32(1)
_BELOW_HALF = np.int32(0x7FFF)
_QUIET_NAN = np.uint16(0x7FC0)


@njit(error_model="numpy", nogil=True, forceinline=True)
def wide(half: np.uint16) -> np.float32:
    """The number whose bits in bfloat16 these are."""
    return np.int32(np.int32(half) << _SIXTEEN).view(np.float32)


@njit(error_model="numpy", nogil=True, forceinline=True)
def widen(halves: NDArray[np.uint16], out: NDArray[np.float32]) -> None:
    """Numbers in bfloat16 as float32."""
    for c in range(halves.shape[0]):
        out[c] = wide(halves[c])


@njit(error_model="numpy", nogil=True, forceinline=True)
def narrow(values: NDArray[np.float32], out: NDArray[np.uint16]) -> None:
    """Round to bfloat16, of two equally near to the even one."""
    for c in range(values.shape[0]):
        bits = np.float32(values[c]).view(np.int32)
        odd = np.int32(bits >> _SIXTEEN) & _LAST_BIT
        rounded = np.uint16(np.int32(bits + _BELOW_HALF + odd) >> _SIXTEEN)
        out[c] = _QUIET_NAN if values[c] != values[c] else rounded
