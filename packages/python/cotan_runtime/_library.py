# SPDX-License-Identifier: Apache-2.0
"""Declarations of cotan.h for ctypes."""

import ctypes
import operator
import os
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_double, c_int32, c_int64, c_size_t, c_uint32, c_void_p

ABI_VERSION = 0  # COTAN_ABI_VERSION
ABORTED = 10  # COTAN_ABORTED

RELEASE = CFUNCTYPE(None, c_void_p)
EFFECT_KINDS = ("print", "metric", "assert")
ROLES = ("", "parameter", "buffer", "optimizer_slot", "hyperparameter", "gradient_accumulator", "rng", "constant")


class _Sized(Structure):
  """A struct whose first field is its size."""

  def __init__(self, **fields):
    super().__init__(struct_size=ctypes.sizeof(type(self)), **fields)


class TensorInfo(_Sized):
  _fields_ = [("struct_size", c_size_t), ("dtype", c_int32), ("rank", c_int32), ("sizes", POINTER(c_int64)),
              ("strides", POINTER(c_int64)), ("num_elements", c_int64), ("data", c_void_p), ("is_contiguous", c_int32)]


class MethodInfo(_Sized):
  _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("num_inputs", c_size_t), ("num_outputs", c_size_t)]


class ValueInfo(_Sized):
  _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("type", c_char_p), ("dtype", c_int32), ("rank", c_int32),
              ("sizes", POINTER(c_int64))]


class DimensionInfo(_Sized):
  _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("min", c_int64), ("max", c_int64)]


class StateInfo(_Sized):
  _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("type", c_char_p), ("dtype", c_int32), ("rank", c_int32),
              ("sizes", POINTER(c_int64)), ("role", c_int32), ("requires_grad", c_int32), ("persistent", c_int32),
              ("owner", c_char_p)]


class Effect(Structure):
  _fields_ = [("struct_size", c_size_t), ("kind", c_int32), ("name", c_char_p), ("message", c_char_p),
              ("value", c_void_p)]


EFFECT = CFUNCTYPE(c_int32, c_void_p, POINTER(Effect))


class SessionOptions(_Sized):
  _fields_ = [("struct_size", c_size_t), ("device", c_char_p), ("threads", c_int32), ("max_plans", c_int32),
              ("on_effect", EFFECT), ("on_effect_context", c_void_p), ("handle_assertions", c_int32),
              ("flush_denormals", c_int32)]


class PlanSummary(_Sized):
  _fields_ = [("struct_size", c_size_t)] + [
      (name, c_int64)
      for name in ("arena_bytes", "peak_bytes", "num_steps", "views", "view_copies", "outputs_in_place",
                   "output_copies", "updates_in_place", "update_copies", "inputs_in_place", "input_copies",
                   "inputs_overwritten", "host_bytes")
  ]


_HANDLE = POINTER(c_void_p)  # **out
_INT64S = POINTER(c_int64)
_SIZE = POINTER(c_size_t)

# Arguments of the functions that return a cotan_status. Pointers to structs are passed by byref().
_STATUS_FUNCTIONS = {
    "check_abi": [c_uint32],
    "tensor_create": [c_int32, c_int32, _INT64S, c_void_p, c_size_t, _HANDLE],
    "tensor_borrow": [c_int32, c_int32, _INT64S, _INT64S, c_void_p, c_size_t, RELEASE, c_void_p, _HANDLE],
    "tensor_get_info": [c_void_p, POINTER(TensorInfo)],
    "tensor_read": [c_void_p, c_void_p, c_size_t],
    "program_load": [c_char_p, _HANDLE],
    "program_load_copy": [c_char_p, c_size_t, c_char_p, _HANDLE],
    "program_load_memory": [c_void_p, c_size_t, c_char_p, RELEASE, c_void_p, _HANDLE],
    "program_method": [c_void_p, c_size_t, POINTER(MethodInfo)],
    "program_input": [c_void_p, c_size_t, c_size_t, POINTER(ValueInfo)],
    "program_output": [c_void_p, c_size_t, c_size_t, POINTER(ValueInfo)],
    "program_state": [c_void_p, c_size_t, POINTER(StateInfo)],
    "program_dimension": [c_void_p, c_size_t, POINTER(DimensionInfo)],
    "program_find_method": [c_void_p, c_char_p, _SIZE],
    "program_find_state": [c_void_p, c_char_p, _SIZE],
    "program_number_double": [c_void_p, c_size_t, c_size_t, c_double, _HANDLE],
    "program_number_int64": [c_void_p, c_size_t, c_size_t, c_int64, _HANDLE],
    "program_number_bool": [c_void_p, c_size_t, c_size_t, c_int32, _HANDLE],
    "session_create": [c_void_p, POINTER(SessionOptions), _HANDLE],
    "session_run": [c_void_p, c_char_p, _HANDLE, c_size_t, _HANDLE, c_size_t],
    "session_run_timed": [c_void_p, c_char_p, _HANDLE, c_size_t, _HANDLE, c_size_t, _INT64S, _SIZE],
    "session_synchronize": [c_void_p],
    "session_gradient": [c_void_p, c_char_p, _HANDLE],
    "session_get_state": [c_void_p, c_char_p, _HANDLE],
    "session_set_state": [c_void_p, c_char_p, c_void_p],
    "session_get_hyperparameter": [c_void_p, c_char_p, c_int32, POINTER(c_double)],
    "session_set_hyperparameter": [c_void_p, c_char_p, c_int32, c_double],
    "session_get_rng": [c_void_p, _INT64S, _INT64S],
    "session_set_rng": [c_void_p, c_int64, c_int64],
    "session_save_checkpoint": [c_void_p, c_char_p],
    "session_load_checkpoint": [c_void_p, c_char_p],
    "session_plan_summary": [c_void_p, c_char_p, POINTER(PlanSummary)],
    "session_plan_text": [c_void_p, c_char_p, _HANDLE],
    "session_state_bytes": [c_void_p, _INT64S],
    "session_arena_bytes": [c_void_p, _INT64S],
    "session_num_plans_made": [c_void_p, _INT64S],
}

# The others: (result, arguments).
_OTHER_FUNCTIONS = {
    "last_error": (c_char_p, []),
    "last_error_code": (c_int32, []),
    "status_name": (c_char_p, [c_int32]),
    "version": (c_char_p, []),
    "abi_version": (c_uint32, []),
    "dtype_name": (c_char_p, [c_int32]),
    "dtype_size": (c_size_t, [c_int32]),
    "tensor_free": (None, [c_void_p]),
    "program_free": (None, [c_void_p]),
    "session_free": (None, [c_void_p]),
    "string_free": (None, [c_void_p]),
    "program_num_methods": (c_size_t, [c_void_p]),
    "program_num_states": (c_size_t, [c_void_p]),
    "program_num_dimensions": (c_size_t, [c_void_p]),
}


class CotanError(RuntimeError):
  """An error of the runtime.

  Attributes:
    status: its name, such as "INVALID_ARGUMENT".
    message: the text of cotan_last_error(); bytes of a path that are not UTF-8 are escaped, as \\xff.
  """

  def __init__(self, status, message):
    super().__init__(f"{status}: {message}")
    self.status = status
    self.message = message


def integer(value, bits, name):
  """Returns an integer for an argument of the C interface. ctypes drops the bits that do not fit.

  Raises:
    OverflowError: it does not fit in `bits` bits with a sign; `name` is for the message.
  """
  number = operator.index(value)
  if not -2**(bits - 1) <= number < 2**(bits - 1):
    raise OverflowError(f"{name} is {number}, which does not fit in an integer of {bits} bits")
  return number


def _load():
  path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libcotan.so.0")
  try:
    return ctypes.CDLL(path)
  except OSError as error:
    raise ImportError(f"{error}. cotan-runtime needs libraries of the system that built it. Debian 12: "
                      "apt-get install libdnnl2 libgomp1 libprotobuf-lite32 libabsl20220623. Debian 13: "
                      "apt-get install libdnnl3.6 libgomp1 libprotobuf-lite32t64 libabsl20240722") from error


_library = _load()


def _bind_checked(name, argtypes):
  function = getattr(_library, "cotan_" + name)
  function.argtypes = argtypes
  function.restype = c_int32

  def call(*arguments):
    status = function(*arguments)
    if status != 0:
      raise CotanError(status_name(status).decode(), last_error().decode(errors="backslashreplace"))

  call.__name__ = name
  return call


def _bind(name, restype, argtypes):
  function = getattr(_library, "cotan_" + name)
  function.argtypes = argtypes
  function.restype = restype
  return function


# cotan_NAME becomes the function NAME of this module. Those that return a status raise CotanError.
for _name, (_restype, _argtypes) in _OTHER_FUNCTIONS.items():
  globals()[_name] = _bind(_name, _restype, _argtypes)
for _name, _argtypes in _STATUS_FUNCTIONS.items():
  globals()[_name] = _bind_checked(_name, _argtypes)
