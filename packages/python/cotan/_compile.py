# SPDX-License-Identifier: Apache-2.0
"""From a module of PyTorch to a compiled program."""
# pylint: disable=import-outside-toplevel,redefined-builtin

import contextlib
import copy
import inspect
import os
import pathlib
import re
import signal
import subprocess
import tempfile

import cotan_runtime

_FOLDER = pathlib.Path(__file__).resolve().parent
_PARAMETER = inspect.Parameter.POSITIONAL_OR_KEYWORD


class CompileError(RuntimeError):
  """A module that cannot be compiled; the message names the cause and the lines of Python that it comes from."""


def _names_of(function, count, taken=()):
  """Returns names for the first `count` arguments of a function, those of its parameters where it has them."""
  try:
    parameters = list(inspect.signature(function).parameters.values())
  except (TypeError, ValueError):  # built-in functions have none
    parameters = []
  names = [parameter.name for parameter in parameters if parameter.kind == _PARAMETER][:count]
  names += [f"input{i}" for i in range(len(names), count)]
  return [name + "_" if name in taken else name for name in names]


def _with_loss(module, loss, inputs, targets):
  """Returns a copy of a module, with its parameters, that also takes targets and returns its loss last."""
  count = len(inputs)
  original = type(module).forward

  def forward(self, *arguments):
    prediction = original(self, *arguments[:count])
    return prediction, loss(prediction, *arguments[count:])

  names = ["self", *inputs, *targets]
  forward.__signature__ = inspect.Signature([inspect.Parameter(name, _PARAMETER) for name in names])
  step = copy.copy(module)
  step.__class__ = type(type(module).__name__, (type(module),), {"forward": forward})
  return step


class _Dimensions:
  """Makes one torch.export.Dim of all dimensions of a name, with the range that any argument gives.

  Raises:
    ValueError: a name has two ranges.
  """

  def __init__(self, dynamic):
    import torch
    self._torch = torch
    self._dynamic = dynamic
    self._dims = {}
    self._ranges = {}
    for spec in (spec for dimensions in dynamic.values() for spec in dimensions.values() if isinstance(spec, tuple)):
      name, bounds = spec[0], spec[1:]
      if self._ranges.setdefault(name, bounds) != bounds:
        raise ValueError(f"dynamic gives {name!r} two ranges, {self._ranges[name]} and {bounds}")

  def _of(self, spec):
    """Returns the Dim of "name", ("name", min, max), or of what torch.export takes itself."""
    name = spec[0] if isinstance(spec, tuple) else spec
    if not isinstance(name, str):
      return spec
    if name not in self._dims:
      bounds = dict(zip(("min", "max"), self._ranges.get(name, ())))
      self._dims[name] = self._torch.export.Dim(name, **bounds)
    return self._dims[name]

  def shapes(self, names):
    """Returns dynamic_shapes of torch.export for arguments with these names; None if all sizes are fixed."""
    shapes = {name: {axis: self._of(spec) for axis, spec in self._dynamic.get(name, {}).items()} for name in names}
    return {name: sizes or None for name, sizes in shapes.items()} if any(shapes.values()) else None


def _export(module, arguments, names, dimensions, is_training):
  """Exports a module in training or evaluation mode; the modes of its submodules stay as they are."""
  import torch
  modes = [(part, part.training) for part in module.modules()]
  try:
    module.train(is_training)
    return torch.export.export(module, tuple(arguments), dynamic_shapes=dimensions.shapes(names), strict=False)
  except Exception as error:
    raise CompileError(f"torch.export cannot export {type(module).__name__}: {error}") from error
  finally:
    for part, mode in modes:
      part.training = mode


def _optimizer_text(optimizer):
  """Returns an optimizer of torch.optim as text for the compiler; text stays as it is."""
  if isinstance(optimizer, str):
    return optimizer
  name = type(optimizer).__name__.lower()
  groups = getattr(optimizer, "param_groups", None)
  if name not in ("sgd", "adam", "adamw") or groups is None:
    raise ValueError(f"optimizer {type(optimizer).__name__} cannot be compiled; SGD, Adam and AdamW of torch.optim can")
  if len(groups) != 1:
    raise ValueError("an optimizer with several parameter groups cannot be compiled; make one group of the parameters "
                     "that are trained, or give text such as 'adamw(lr=1e-3)', and flags=['--freeze=stem.*'] for those "
                     "that are not")
  settings = dict(groups[0])
  if settings.get("decoupled_weight_decay"):  # of Adam too
    name = "adamw"
  if "betas" in settings:
    settings["beta1"], settings["beta2"] = settings.pop("betas")
  known = {
      "sgd": ("lr", "momentum", "dampening", "weight_decay", "nesterov", "maximize"),
      "adam": ("lr", "beta1", "beta2", "eps", "weight_decay", "amsgrad", "maximize"),
  }["sgd" if name == "sgd" else "adam"]
  parts = []
  for key in known:
    value = settings.get(key)
    if value is not None:
      parts.append(f"{key}={str(value).lower() if isinstance(value, bool) else repr(float(value))}")
  return f"{name}({','.join(parts)})"


@contextlib.contextmanager
def _frozen_without(optimizer, module):
  """Freezes, for a while, the parameters of a module that an optimizer of torch.optim does not have."""
  if optimizer is None or isinstance(optimizer, str):
    yield
    return
  parameters = list(module.parameters())
  taken = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
  unknown = len(taken - {id(parameter) for parameter in parameters})
  if unknown:
    raise ValueError(f"the optimizer has {unknown} parameters that {type(module).__name__} does not have; make it of "
                     "parameters of the module")
  frozen = [parameter for parameter in parameters if parameter.requires_grad and id(parameter) not in taken]
  try:
    for parameter in frozen:
      parameter.requires_grad_(False)
    yield
  finally:
    for parameter in frozen:
      parameter.requires_grad_(True)


def _compiler():
  """Returns the path of the compiler and the version of PyTorch that it was built with ("" if unknown)."""
  given = os.environ.get("COTAN_COMPILER")
  if given:
    return pathlib.Path(given), ""
  return _FOLDER / "bin" / "compile", (_FOLDER / "torch_version.txt").read_text(encoding="utf-8").strip()


def _run_compiler(flags):
  """Runs the compiler with the libraries of the installed PyTorch. Returns the ended process."""
  import torch
  path, version = _compiler()
  if version and torch.__version__.split("+")[0] != version:
    raise CompileError(f"this compiler needs PyTorch {version}, but {torch.__version__} is installed: "
                       f"python3 -m pip install torch=={version}")
  environment = dict(os.environ)
  folders = [str(pathlib.Path(torch.__file__).resolve().parent / "lib"), environment.get("LD_LIBRARY_PATH", "")]
  environment["LD_LIBRARY_PATH"] = os.pathsep.join(folder for folder in folders if folder)
  return subprocess.run([str(path), *flags], env=environment, capture_output=True, text=True, errors="backslashreplace",
                        check=False)


def _reason(done):
  """Returns why the compiler failed: its error without the lines of progress before it, or how it ended."""
  found = re.search(r"^error: ", done.stderr, re.MULTILINE)
  if found:
    return done.stderr[found.end():].strip()
  how = f"ended with status {done.returncode}"
  if done.returncode < 0:
    how = f"was ended by signal {-done.returncode} ({signal.strsignal(-done.returncode)})"
  return f"the compiler {how}\n{done.stderr}".strip()


def _python_lines(message, program):
  """Returns a line for each place in Python that made an op which a message of the compiler names.

  The place is the innermost one outside of PyTorch.
  """
  import torch
  library = pathlib.Path(torch.__file__).resolve().parent
  # An exported aten.linalg_svd calls aten._linalg_svd.
  ops = {name.lstrip("_") for name in re.findall(r"aten(?:::|\.)(\w+)", message)}
  nodes = set(re.findall(r"'([\w.]+)'", message))
  lines = []
  for node in program.graph.nodes:
    op = re.match(r"aten\.(\w+)", str(node.target))
    if node.op != "call_function" or op is None or not (op.group(1).lstrip("_") in ops or node.name in nodes):
      continue
    frames = re.findall(r'File "(.+)", line (\d+), in (.+)\n\s*(.+)', node.meta.get("stack_trace") or "")
    frames = [frame for frame in frames if not frame[0].startswith(str(library))] or frames
    if frames:
      path, number, function, code = frames[-1]
      lines.append(f"  aten.{op.group(1)}: {path}:{number}, in {function}: {code.strip()}")
  return list(dict.fromkeys(lines))


def compile(module, inputs, loss=None, optimizer=None, dynamic=None, out=None, *, targets=(), evaluate=True, flags=()):
  """Compiles a module and returns the cotan_runtime.Program.

  With a loss and an optimizer the program has the method "train_step", which is the module in training mode; without,
  "forward" and "backward", which are the module in the mode that it has (module.training). "eval" is the module in
  evaluation mode. Parameters and buffers have the names of the module. The module stays as it is.

  Args:
    module: the torch.nn.Module, on the CPU.
    inputs: tuple of example tensors, the arguments of module.forward().
    loss: a function or module that takes what the module returns, and `targets`, and returns the loss; then
      "train_step" takes inputs and targets and returns what the module returns, and the loss. Or text, as
      "cross_entropy(output:0,label)", or "output:0" for a module that returns its loss.
    optimizer: text, as "adamw(lr=1e-3)", or an SGD, Adam or AdamW of torch.optim with one group of parameters of the
      module; the others are frozen.
    dynamic: {name of an argument: {axis: dimension}}; a dimension is its name, (name, min, max), or a dimension of
      torch.export. Targets have the names of the parameters of the loss.
    out: file to write; None: only the program is returned.
    targets: tuple of example targets, for a loss that is a function or module.
    evaluate: whether to add the method "eval".
    flags: more flags of the compiler, as ["--precision=bf16", "--max-memory=64MiB"]; `//aot:compile --help` lists them.

  Raises:
    CompileError: torch.export or the compiler refuses the module, or PyTorch has another version.
    ValueError: arguments that do not fit together.
  """
  import torch
  if (loss is None) != (optimizer is None):
    raise ValueError("a training step needs both loss and optimizer")
  names = _names_of(module.forward, len(inputs))
  step, target_names = module, []
  if loss is not None and not isinstance(loss, str):
    target_names = _names_of(loss.forward if isinstance(loss, torch.nn.Module) else loss, len(targets) + 1, names)[1:]
    step = _with_loss(module, loss, names, target_names)
  elif targets:
    raise ValueError("targets are for a loss that is a function or a module")
  unknown = [name for name in dynamic or {} if name not in names + target_names]
  if unknown:
    raise ValueError(f"dynamic names {unknown[0]!r}; the arguments are {', '.join(names + target_names)}")
  dimensions = _Dimensions(dynamic or {})
  optimizer_text = None if optimizer is None else _optimizer_text(optimizer)
  with tempfile.TemporaryDirectory() as folder, _frozen_without(optimizer, module):
    is_training = loss is not None or module.training
    trained = _export(step, [*inputs, *targets], names + target_names, dimensions, is_training)
    torch.export.save(trained, os.path.join(folder, "train.pt2"))
    path = os.path.join(folder, "program.cotan") if out is None else os.fspath(out)
    arguments = [f"--model={folder}/train.pt2", f"--out={path}", *flags]
    if loss is not None:
      arguments += [f"--loss={loss if isinstance(loss, str) else 'output:-1'}", f"--optimizer={optimizer_text}"]
    if evaluate:
      torch.export.save(_export(module, inputs, names, dimensions, is_training=False), os.path.join(folder, "eval.pt2"))
      arguments.append(f"--eval={folder}/eval.pt2")
    done = _run_compiler(arguments)
    if done.returncode != 0:
      message = _reason(done)
      lines = _python_lines(message, trained)
      raise CompileError("\n".join([message, "in Python:", *lines] if lines else [message]))
    if out is not None:
      return cotan_runtime.Program.load(path)
    return cotan_runtime.Program.from_bytes(pathlib.Path(path).read_bytes(), type(module).__name__)
