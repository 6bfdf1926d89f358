# SPDX-License-Identifier: Apache-2.0
"""Sessions that take tensors of PyTorch, and anything else with DLPack, beside NumPy arrays."""

import sys

import cotan_runtime
import numpy as np


def _torch():
  """Returns PyTorch if the process uses it. A session does not load it."""
  return sys.modules.get("torch")


def _is_tensor(value):
  torch = _torch()
  return torch is not None and isinstance(value, torch.Tensor)


def _bits_dtype(tensor):
  """Returns the integers that stand for a dtype that NumPy does not have; None for others."""
  torch = _torch()
  if tensor.dtype == torch.bfloat16:
    return torch.uint16
  if tensor.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
    return torch.uint8
  return None


class _Unversioned:
  """An object whose DLPack has no version.

  Its exporter must refuse memory that is read-only, as there is no flag for that.
  """

  def __init__(self, value):
    self._value = value

  def __dlpack__(self, **_):
    return self._value.__dlpack__()

  def __dlpack_device__(self):
    return self._value.__dlpack_device__()


class _Writable:
  """The memory of an array as writable memory, for NumPy; keeps the array alive."""

  def __init__(self, array):
    interface = array.__array_interface__
    self._array = array
    self.__array_interface__ = {**interface, "data": (interface["data"][0], False)}


def _from_dlpack(value):
  """Returns an array over the memory of an object. The one of np.from_dlpack() is read-only, and would be copied."""
  return np.asarray(_Writable(np.from_dlpack(_Unversioned(value))))


def _to_array(value):
  """Returns an argument over the same memory, as an array."""
  if _is_tensor(value):
    if value.device.type != "cpu":
      raise ValueError(f"the argument is on {value.device}; sessions take tensors of the CPU: call .cpu()")
    tensor = value.detach()
    bits = _bits_dtype(tensor)
    return (tensor if bits is None else tensor.view(bits)).numpy()
  if hasattr(value, "__dlpack__") and not isinstance(value, np.ndarray):
    return _from_dlpack(value)
  return value


_TORCH_BITS = {"bf16": "bfloat16", "f8e4m3fn": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}


def _to_tensor(array, type_text):
  """Returns a tensor over the memory of a result."""
  tensor = _torch().from_numpy(array)
  name = _TORCH_BITS.get(type_text.split("[")[0])
  return tensor if name is None else tensor.view(getattr(_torch(), name))


class Session(cotan_runtime.Session):
  """A cotan_runtime.Session whose run() takes NumPy arrays, tensors of PyTorch and other objects with DLPack.

  The runtime reads arguments where they are and writes results into the memory of `out`. It copies

  - arguments that are read-only arrays, arrays with negative strides, or not aligned;
  - results, if their memory in `out` is not aligned, is not contiguous, or belongs to an argument or another result.

  Objects with DLPack are on the CPU and have a dtype of NumPy; their memory counts as writable.

  Args:
    program: a Program, or the path of a .cotan file.
    **options: those of cotan_runtime.Session.
  """

  def __init__(self, program, **options):
    if not isinstance(program, cotan_runtime.Program):
      program = cotan_runtime.Program.load(program)
    super().__init__(program, **options)

  def run(self, method, *arguments, out=None):
    """Runs a method. Results are tensors if an argument is one, else arrays.

    Args:
      method: its name.
      *arguments: arrays, tensors on the CPU, objects with __dlpack__(), or numbers.
      out: arrays, tensors or objects with __dlpack__() to write the results to, one for each; None: new ones over the
        memory of the runtime. They are writable and have the dtypes and sizes of the results.

    Raises:
      TypeError, ValueError: as cotan_runtime.Session.run(), or an argument is not on the CPU.
    """
    written = None if out is None else [_to_array(value) for value in out]
    results = super().run(method, *map(_to_array, arguments), out=written)
    if out is not None:
      return list(out)
    if not any(map(_is_tensor, arguments)):
      return results
    outputs = self.program.methods[method].outputs
    return [_to_tensor(array, output.type) for array, output in zip(results, outputs)]

  def _module_states(self):
    return [state for state in self.program.states.values()
            if state.role in ("parameter", "buffer") and state.persistent]

  def _check_has_state(self, name):
    try:
      self._find_state(name)
    except cotan_runtime.CotanError as error:
      raise KeyError(name) from error

  def state_dict(self):
    """Returns copies of parameters and buffers as tensors, for module.load_state_dict(..., strict=False).

    A parameter with several names in the module has its first one.
    """
    import torch  # pylint: disable=import-outside-toplevel,unused-import  # _to_tensor() finds it loaded
    return {state.name: _to_tensor(self.state(state.name), state.type) for state in self._module_states()}

  def load_state_dict(self, states):
    """Sets parameters and buffers from a dict of tensors or arrays, by name or alias; others keep their values.

    Raises:
      KeyError: a name that the program does not have; then no state has changed.
      CotanError: a value has another dtype or shape than its state; those before it are set.
    """
    for name in states:
      self._check_has_state(name)
    for name, value in states.items():
      self.set_state(name, _to_array(value))
