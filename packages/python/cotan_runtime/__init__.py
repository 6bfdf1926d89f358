# SPDX-License-Identifier: Apache-2.0
"""Trains and runs programs that Cotan compiled, with NumPy arrays.

  import cotan_runtime as cotan

  program = cotan.Program.load("digits.cotan")
  session = cotan.Session(program)
  logits, loss = session.run("train_step", images, labels)

Arguments are not copied if their memory is aligned, writable and has no negative strides. Results are arrays over the
memory of the runtime. bf16 numbers are arrays of uint16 with their bits (from_bf16(), to_bf16()), floats of 8 bits arrays
of uint8. Errors are CotanError. A session is used by one thread at a time; other Python threads run meanwhile.
"""

import ctypes
import os
import re
import typing

import numpy as np

from . import _library as lib
from . import _tensors
from ._library import CotanError
from ._tensors import from_bf16, to_bf16

__all__ = ["CotanError", "Dimension", "Method", "Program", "Session", "State", "Value", "from_bf16", "to_bf16"]
__version__ = lib.version().decode()

_MAX_STEPS = 65536

lib.check_abi(lib.ABI_VERSION)


class Value(typing.NamedTuple):
  """An argument or result of a method; -1 in `shape` is a dynamic dimension."""
  name: str
  type: str
  dtype: np.dtype
  shape: tuple


class Method(typing.NamedTuple):
  name: str
  inputs: tuple
  outputs: tuple


class State(typing.NamedTuple):
  """A parameter, buffer, optimizer slot, ..., see `role`; `owner` is the parameter of a slot, or ""."""
  name: str
  type: str
  dtype: np.dtype
  shape: tuple
  role: str
  requires_grad: bool
  persistent: bool
  owner: str


class Dimension(typing.NamedTuple):
  """A dynamic dimension, whose values are in [min, max]."""
  name: str
  min: int
  max: int


def _path(path):
  return os.fsencode(path)


def _shape(info):
  return tuple(info.sizes[i] for i in range(info.rank))


def _symbols(value):
  """Returns the dynamic dimension of each axis of a Value, as "s0"; "" for a number or an expression."""
  texts = value.type[value.type.index("[") + 1:value.type.index("]")].split(",")
  if len(texts) != len(value.shape):  # of an expression with a comma, or of no axis
    return ("",) * len(value.shape)
  return tuple(text if re.fullmatch("s[0-9]+", text) else "" for text in texts)


def _result_shapes(method, arguments):
  """Returns the shapes of the results for arguments of these shapes; -1 is a size that they do not give."""
  known = {"": -1}
  for value, shape in zip(method.inputs, arguments):
    known.update({symbol: size for symbol, size in zip(_symbols(value), shape) if symbol})
  return [
      tuple(known.get(symbol, -1) if size < 0 else size for symbol, size in zip(_symbols(value), value.shape))
      for value in method.outputs
  ]


def _described(function, info, *indices):
  function(*indices, ctypes.byref(info))
  return info


class Program:
  """A loaded and verified .cotan file. Immutable; any number of threads and sessions may use it.

  Attributes:
    methods: dict of Method by name.
    states: dict of State by name.
    dimensions: tuple of Dimension; a type such as f32[s0,3] has number 0 in place of s0.
  """

  def __init__(self, handle):
    """Takes ownership of a handle; see load() and from_bytes()."""
    self._handle = handle
    count = lib.program_num_methods(handle)
    self.methods = {method.name: method for method in map(self._method, range(count))}
    self._indices = {name: index for index, name in enumerate(self.methods)}
    # Numbers of the dtypes of arguments and results, by method.
    self._dtypes = {
        name: (tuple(self._value(lib.program_input, index, i)[1] for i in range(len(method.inputs))),
               tuple(self._value(lib.program_output, index, i)[1] for i in range(len(method.outputs))))
        for index, (name, method) in enumerate(self.methods.items())
    }
    self.states = {state.name: state for state in map(self._state, range(lib.program_num_states(handle)))}
    self.dimensions = tuple(map(self._dimension, range(lib.program_num_dimensions(handle))))

  def __del__(self, free=lib.program_free):  # at exit, modules may be gone
    free(self._handle)

  @classmethod
  def load(cls, path):
    """Loads a file."""
    handle = ctypes.c_void_p()
    lib.program_load(_path(path), ctypes.byref(handle))
    return cls(handle)

  @classmethod
  def from_bytes(cls, data, name="program"):
    """Loads a copy of the bytes of a file; `name` stands for the file in messages."""
    handle = ctypes.c_void_p()
    data = bytes(data)
    lib.program_load_copy(data, len(data), name.encode(), ctypes.byref(handle))
    return cls(handle)

  def _value(self, function, method, index):
    info = _described(function, lib.ValueInfo(), self._handle, method, index)
    dtype = np.dtype(_tensors.NUMPY_DTYPES[info.dtype])
    return Value(info.name.decode(), info.type.decode(), dtype, _shape(info)), info.dtype

  def _method(self, index):
    info = _described(lib.program_method, lib.MethodInfo(), self._handle, index)
    return Method(info.name.decode(),
                  tuple(self._value(lib.program_input, index, i)[0] for i in range(info.num_inputs)),
                  tuple(self._value(lib.program_output, index, i)[0] for i in range(info.num_outputs)))

  def _state(self, index):
    info = _described(lib.program_state, lib.StateInfo(), self._handle, index)
    return State(info.name.decode(), info.type.decode(), np.dtype(_tensors.NUMPY_DTYPES[info.dtype]), _shape(info),
                 lib.ROLES[info.role], bool(info.requires_grad), bool(info.persistent), info.owner.decode())

  def _dimension(self, index):
    info = _described(lib.program_dimension, lib.DimensionInfo(), self._handle, index)
    return Dimension(info.name.decode(), info.min, info.max)

  def _argument(self, method, position, value):
    """Returns the tensor of an argument; a Python number fits inputs that are numbers."""
    dtypes = self._dtypes[method][0] if method in self._dtypes else ()
    if position >= len(dtypes):  # the run reports it
      return _tensors.borrow(np.asarray(value), 0, f"argument {position}")
    if not isinstance(value, (bool, int, float)):
      return _tensors.borrow(value, dtypes[position], f"argument {position}")
    handle = ctypes.c_void_p()
    make = lib.program_number_double
    if isinstance(value, bool):
      make = lib.program_number_bool
    elif isinstance(value, int):
      make, value = lib.program_number_int64, lib.integer(value, 64, f"argument {position}")
    make(self._handle, self._indices[method], position, value, ctypes.byref(handle))
    return _tensors.Tensor(handle)


def _effect_handler(function, raised):
  """Returns a callback that appends what `function` raises to the list `raised`."""

  def call(_, effect):
    try:
      event = effect.contents
      function(lib.EFFECT_KINDS[event.kind], event.name.decode(), event.message.decode(), _tensors.copy(event.value))
      return 0
    except BaseException as error:  # pylint: disable=broad-except
      raised.append(error)
      return lib.ABORTED

  return lib.EFFECT(call)


class Session:
  """The states of a program and the memory to run its methods.

  Args:
    program: the Program.
    threads: number of threads that a run may use, at most one for each processor; 0 = one for each physical core.
    max_plans: number of plans cached per method, one for each set of sizes; 0 = 8.
    on_effect: function of (kind, name, message, array), called for prints and metrics of the program; `kind` is
      "print", "metric" or "assert". What it raises ends the run, which then changes nothing.
    handle_assertions: if true, failed assertions go to `on_effect`, too; if false, they end the run.
    flush_denormals: if true, runs take subnormal (denormal) numbers as zeros, as after torch.set_flush_denormal(True).
  """

  def __init__(self, program, threads=0, max_plans=0, on_effect=None, handle_assertions=False,
               flush_denormals=False):
    self._handle = None
    self._program = program
    self._raised = []
    self._callback = lib.EFFECT() if on_effect is None else _effect_handler(on_effect, self._raised)
    options = lib.SessionOptions(threads=lib.integer(threads, 32, "threads"),
                                 max_plans=lib.integer(max_plans, 32, "max_plans"), on_effect=self._callback,
                                 handle_assertions=int(bool(handle_assertions)),
                                 flush_denormals=int(bool(flush_denormals)))
    handle = ctypes.c_void_p()
    lib.session_create(program._handle, ctypes.byref(options), ctypes.byref(handle))
    self._handle = handle

  def __del__(self, free=lib.session_free):  # at exit, modules may be gone
    free(self._handle)

  @property
  def program(self):
    return self._program

  @staticmethod
  def _check_out(method, arguments, out):
    shapes = _result_shapes(method, map(_tensors.shape_of, arguments))
    for i, (array, value, shape) in enumerate(zip(out, method.outputs, shapes)):
      _tensors.check_out(array, value.dtype, shape, f"out {i}")

  def _call(self, function, method, arguments, out, *more):
    given = [self._program._argument(method, i, value) for i, value in enumerate(arguments)]
    handles = (ctypes.c_void_p * len(given))(*(tensor.handle for tensor in given))
    dtypes = self._program._dtypes[method][1] if method in self._program._dtypes else ()
    borrowed = []
    if out is not None:
      if len(out) != len(dtypes):
        raise ValueError(f"out has {len(out)} arrays, but method '{method}' has {len(dtypes)} results")
      if dtypes:
        self._check_out(self._program.methods[method], given, out)
      borrowed = [_tensors.borrow(array, dtype, f"out {i}") for i, (array, dtype) in enumerate(zip(out, dtypes))]
    results = (ctypes.c_void_p * len(dtypes))(*(tensor.handle for tensor in borrowed))
    self._raised.clear()
    try:
      function(self._handle, method.encode(), handles, len(given), results, len(dtypes), *more)
    except CotanError:
      if self._raised:
        raise self._raised.pop() from None
      raise
    if out is None:
      return [_tensors.view(_tensors.Tensor(ctypes.c_void_p(handle))) for handle in results]
    for i, (array, tensor) in enumerate(zip(out, borrowed)):
      _tensors.move_to(tensor, array, f"out {i}")
    return list(out)

  def run(self, method, *arguments, out=None):
    """Runs a method and returns its results as a list of arrays.

    Args:
      method: its name.
      *arguments: arrays, lists, or numbers for inputs that are numbers. An array must have the dtype of the input.
      out: arrays to write the results to, one for each; None: new ones.

    Raises:
      CotanError: the runtime refuses the call.
      OverflowError: an integer of more than 64 bits.
      TypeError: an array has a dtype that Cotan does not have; what `out` has is not an array, or has another dtype
        than the result. Then the method has not run.
      ValueError: what `out` has is read-only or has another shape than the result. Then the method has not run, unless
        only the run finds a size of the result: in the data, or by arithmetic on sizes of the arguments.
    """
    return self._call(lib.session_run, method, arguments, out)

  def run_timed(self, method, *arguments, out=None):
    """Runs a method and returns (results, nanoseconds of each of the first 65536 steps of its plan)."""
    times = (ctypes.c_int64 * _MAX_STEPS)()
    steps = ctypes.c_size_t(_MAX_STEPS)
    results = self._call(lib.session_run_timed, method, arguments, out, times, ctypes.byref(steps))
    return results, list(times[:min(steps.value, _MAX_STEPS)])

  def synchronize(self):
    """Waits until the work that runs queued on the device is done."""
    lib.session_synchronize(self._handle)

  def _returned(self, function, name):
    handle = ctypes.c_void_p()
    function(self._handle, name.encode(), ctypes.byref(handle))
    return _tensors.view(_tensors.Tensor(handle))

  def gradient(self, parameter):
    """Returns a copy of the gradient of a parameter that the last backward computed."""
    return self._returned(lib.session_gradient, parameter)

  def state(self, name):
    """Returns a copy of a state, by name or alias."""
    return self._returned(lib.session_get_state, name)

  def _find_state(self, name):
    """Returns the index of a state, by name or alias. Raises CotanError NOT_FOUND."""
    index = ctypes.c_size_t()
    lib.program_find_state(self._program._handle, name.encode(), ctypes.byref(index))
    return index.value

  def set_state(self, name, value):
    """Sets a state, by name or alias."""
    info = _described(lib.program_state, lib.StateInfo(), self._program._handle, self._find_state(name))
    tensor = _tensors.borrow(value, info.dtype, f"state '{name}'")
    lib.session_set_state(self._handle, name.encode(), tensor.handle)

  def hyperparameter(self, name, group=0):
    """Returns a hyperparameter of the optimizer: "lr", "weight_decay", ..."""
    value = ctypes.c_double()
    group = lib.integer(group, 32, "group")
    lib.session_get_hyperparameter(self._handle, name.encode(), group, ctypes.byref(value))
    return value.value

  def set_hyperparameter(self, name, value, group=0):
    """Sets a hyperparameter; it may change between runs."""
    lib.session_set_hyperparameter(self._handle, name.encode(), lib.integer(group, 32, "group"), value)

  @property
  def rng(self):
    """The state of the random generator: (seed, offset)."""
    seed, offset = ctypes.c_int64(), ctypes.c_int64()
    lib.session_get_rng(self._handle, ctypes.byref(seed), ctypes.byref(offset))
    return seed.value, offset.value

  @rng.setter
  def rng(self, seed_and_offset):
    seed, offset = seed_and_offset
    lib.session_set_rng(self._handle, lib.integer(seed, 64, "seed"), lib.integer(offset, 64, "offset"))

  def save_checkpoint(self, path):
    """Writes the persistent states to a safetensors file."""
    lib.session_save_checkpoint(self._handle, _path(path))

  def load_checkpoint(self, path):
    """Reads the persistent states from a safetensors file."""
    lib.session_load_checkpoint(self._handle, _path(path))

  def plan_summary(self, method):
    """Returns memory and steps of the method's last plan as a dict."""
    summary = _described(lib.session_plan_summary, lib.PlanSummary(), self._handle, method.encode())
    return {name: getattr(summary, name) for name, _ in lib.PlanSummary._fields_ if name != "struct_size"}

  def plan_text(self, method):
    """Returns the summary as a text, with the names of the steps."""
    text = ctypes.c_void_p()
    lib.session_plan_text(self._handle, method.encode(), ctypes.byref(text))
    try:
      return ctypes.string_at(text).decode()
    finally:
      lib.string_free(text)

  def _number(self, function):
    number = ctypes.c_int64()
    function(self._handle, ctypes.byref(number))
    return number.value

  @property
  def state_bytes(self):
    return self._number(lib.session_state_bytes)

  @property
  def arena_bytes(self):
    return self._number(lib.session_arena_bytes)

  @property
  def num_plans_made(self):
    return self._number(lib.session_num_plans_made)
