# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays as tensors and tensors as NumPy arrays, without copies where that is possible."""

import ctypes
import itertools
import threading

import numpy as np

from . import _library as lib

# By number of cotan_dtype. NumPy has no floats of 8 bits and no bf16: their bits are unsigned integers.
NUMPY_DTYPES = (None, np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64, np.float16, np.uint16, np.float32,
                np.float64, np.complex64, np.complex128, np.uint8, np.uint8)
_BITS = frozenset(dtype for dtype in range(1, len(NUMPY_DTYPES))
                  if lib.dtype_name(dtype) in (b"bf16", b"f8e4m3fn", b"f8e5m2"))
_NUMBERS = {np.dtype(NUMPY_DTYPES[number]): number for number in range(1, len(NUMPY_DTYPES)) if number not in _BITS}

# Arrays whose memory tensors borrow, by the number that is the context of the release.
_lent = {}
_numbers = itertools.count(1)
# The garbage collector may free a tensor, which calls _release(), in a thread that holds the lock.
_lock = threading.RLock()


@lib.RELEASE
def _release(context, lent=_lent, lock=_lock):  # at exit, the names of the module may be gone
  with lock:
    array = lent.pop(context)
  del array  # after the lock: it may run code of the caller


# Sessions that are freed at exit still call it.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_release))


class Tensor:
  """Owns a handle."""

  def __init__(self, handle):
    self.handle = handle

  def __del__(self, free=lib.tensor_free):  # at exit, modules may be gone
    free(self.handle)


def _dtype_number(array, expected, name):
  if expected in _BITS and array.dtype == NUMPY_DTYPES[expected]:
    return expected
  number = _NUMBERS.get(array.dtype.newbyteorder("="))  # of any order of bytes: borrow() copies what is not native
  if number is None:
    raise TypeError(f"{name}: Cotan has no dtype for arrays of {array.dtype}")
  return number


def _is_lendable(array):
  steps = [stride // array.itemsize for stride in array.strides]
  return (array.flags.aligned and array.flags.writeable and array.dtype.isnative and
          all(step >= 0 and step * array.itemsize == stride for step, stride in zip(steps, array.strides)))


def borrow(array, expected, name):
  """Returns a tensor over the memory of an array, or over a copy if the runtime cannot use that.

  Args:
    array: an array, or what np.asarray() accepts; lists and numbers get the expected dtype.
    expected: the dtype that the method expects, as a number of cotan_dtype.
    name: for messages.
  """
  if not isinstance(array, np.ndarray):
    array = np.asarray(array, dtype=NUMPY_DTYPES[expected])
  dtype = _dtype_number(array, expected, name)
  if not _is_lendable(array):
    array = np.array(array, dtype=array.dtype.newbyteorder("="), order="C", copy=True)
  rank = array.ndim
  sizes = (ctypes.c_int64 * rank)(*array.shape)
  strides = (ctypes.c_int64 * rank)(*(stride // array.itemsize for stride in array.strides))
  # The bytes from the first element to the end of the last one.
  extent = 0 if array.size == 0 else array.itemsize + sum(
      (size - 1) * stride for size, stride in zip(array.shape, array.strides))
  handle = ctypes.c_void_p()
  with _lock:
    number = next(_numbers)
    _lent[number] = array
  try:
    lib.tensor_borrow(dtype, rank, sizes, strides, array.ctypes.data if extent else None, extent, _release, number,
                      ctypes.byref(handle))
  except lib.CotanError:
    with _lock:
      del _lent[number]
    raise
  return Tensor(handle)


def info_of(handle):
  info = lib.TensorInfo()
  lib.tensor_get_info(handle, ctypes.byref(info))
  return info


class _Memory:
  """The memory of a tensor, for NumPy; keeps the tensor alive."""

  def __init__(self, tensor, info):
    dtype = np.dtype(NUMPY_DTYPES[info.dtype])
    self._tensor = tensor
    self.__array_interface__ = {
        "version": 3,
        "typestr": dtype.str,
        "shape": tuple(info.sizes[i] for i in range(info.rank)),
        "strides": tuple(info.strides[i] * dtype.itemsize for i in range(info.rank)),
        "data": (info.data, False),
    }


def view(tensor):
  """Returns an array over the memory of a tensor, which lives as long as the array."""
  info = info_of(tensor.handle)
  if info.num_elements == 0:
    return np.empty(tuple(info.sizes[i] for i in range(info.rank)), NUMPY_DTYPES[info.dtype])
  return np.asarray(_Memory(tensor, info))


def shape_of(tensor):
  info = info_of(tensor.handle)
  return tuple(info.sizes[i] for i in range(info.rank))


def check_out(array, dtype, shape, name):
  """Raises TypeError or ValueError unless move_to() can write a result to an array.

  Args:
    array: what the caller gave.
    dtype: the dtype of the result.
    shape: the shape of the result, with -1 where it is not known before the run.
    name: for messages.
  """
  if not isinstance(array, np.ndarray):
    raise TypeError(f"{name} is a {type(array).__name__}, but has to be an array")
  if array.dtype.newbyteorder("=") != dtype:
    raise TypeError(f"{name} has dtype {array.dtype}, but the result has dtype {dtype}")
  if not array.flags.writeable:
    raise ValueError(f"{name} is read-only")
  if array.ndim != len(shape) or any(size not in (-1, given) for size, given in zip(shape, array.shape)):
    raise ValueError(f"{name} has shape {array.shape}, but the result has shape {shape}")


def move_to(tensor, array, name):
  """Copies the elements of a tensor to an array unless they are in its memory."""
  info = info_of(tensor.handle)
  shape = shape_of(tensor)
  if shape != array.shape:
    raise ValueError(f"{name} has shape {array.shape}, but the result has shape {shape}")
  if info.data != array.ctypes.data:
    array[...] = view(tensor)


def copy(handle):
  """Returns an array with a copy of the elements of a tensor that the caller does not own."""
  info = info_of(handle)
  array = np.empty(tuple(info.sizes[i] for i in range(info.rank)), NUMPY_DTYPES[info.dtype])
  lib.tensor_read(handle, array.ctypes.data, array.nbytes)
  return array


def from_bf16(bits):
  """Returns the bf16 numbers whose bits are in an array of uint16 as an array of float32 of the same shape."""
  bits = np.asarray(bits, np.uint16)
  # ravel(), as functions of arrays without dimensions return numbers, whose dtype may be another one.
  return (bits.ravel().astype(np.uint32) << 16).view(np.float32).reshape(bits.shape)


def to_bf16(array):
  """Returns the bits of the numbers, rounded to nearest even, as an array of uint16 of the same shape."""
  numbers = np.asarray(array, np.float32)
  bits = numbers.ravel().view(np.uint32)
  rounded = (bits + (0x7FFF + ((bits >> 16) & 1))) >> 16
  return np.where(np.isnan(numbers), np.uint16(0x7FC0), rounded.astype(np.uint16).reshape(numbers.shape))
