# SPDX-License-Identifier: Apache-2.0
"""Tests of the installed package cotan."""

import contextlib
import os
import sys
import tempfile
import unittest
from unittest import mock

import cotan
import numpy as np
import torch
from cotan_runtime import _library, _tensors
from torch import nn


class Regression(nn.Module):

  def __init__(self):
    super().__init__()
    self.layers = nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 1))

  def forward(self, features):
    return self.layers(features)


class Unsupported(nn.Module):

  def forward(self, x):
    return torch.geqrf(x)[0]


class Exported:
  """An object with nothing but DLPack."""

  def __init__(self, array):
    self._array = array

  def __dlpack__(self, **options):
    return self._array.__dlpack__(**options)

  def __dlpack_device__(self):
    return self._array.__dlpack_device__()


class ExportedWithoutVersions(Exported):

  def __dlpack__(self):
    return self._array.__dlpack__()


@contextlib.contextmanager
def RecordedMemory():
  """Records addresses: of memory that is lent to the runtime, and of its own that becomes an array or is copied."""
  borrow, view = _library.tensor_borrow, _tensors.view
  lent, viewed = [], []

  def Borrow(*arguments):
    lent.append(arguments[4])
    return borrow(*arguments)

  def View(tensor):
    viewed.append(_tensors.info_of(tensor.handle).data)
    return view(tensor)

  with mock.patch.object(_library, "tensor_borrow", Borrow), mock.patch.object(_tensors, "view", View):
    yield lent, viewed


def Data(count=16):
  generator = torch.Generator().manual_seed(count)
  features = torch.randn(count, 3, generator=generator)
  return features, features.sum(1, keepdim=True)


class CompileTest(unittest.TestCase):

  def setUp(self):
    torch.manual_seed(0)
    self.net = Regression()
    self.features, self.target = Data()
    self.folder = tempfile.TemporaryDirectory()
    self.addCleanup(self.folder.cleanup)

  def Compile(self, **options):
    return cotan.compile(self.net, (self.features,), loss=nn.functional.mse_loss, targets=(self.target,),
                         **{"optimizer": "sgd(lr=0.1)", **options})

  def ExpectPyTorchsStep(self, optimizer):
    """Compiles a step with an optimizer of the net, and compares it with that of the optimizer."""
    self.net.layers[1].p = 0.0
    session = cotan.Session(self.Compile(optimizer=optimizer))
    prediction, loss = session.run("train_step", self.features, self.target)
    expected = self.net(self.features)
    expected_loss = nn.functional.mse_loss(expected, self.target)
    expected_loss.backward()
    optimizer.step()
    torch.testing.assert_close(prediction, expected.detach())
    torch.testing.assert_close(loss, expected_loss.detach())
    states = session.state_dict()
    self.assertEqual(set(states), set(self.net.state_dict()))
    for name, value in self.net.state_dict().items():
      torch.testing.assert_close(states[name], value, msg=lambda text, name=name: f"{name}: {text}")

  def test_a_step_equals_pytorch(self):
    self.ExpectPyTorchsStep(torch.optim.AdamW(self.net.parameters(), lr=0.01, betas=(0.8, 0.9)))

  def test_weight_decay_of_adam_may_be_decoupled(self):
    options = {"lr": 0.01, "weight_decay": 0.5}
    self.ExpectPyTorchsStep(torch.optim.Adam(self.net.parameters(), decoupled_weight_decay=True, **options))

  def test_parameters_that_the_optimizer_does_not_have_are_frozen(self):
    head = self.net.layers[3]
    program = self.Compile(optimizer=torch.optim.SGD(head.parameters(), lr=0.1))
    self.assertTrue(all(parameter.requires_grad for parameter in self.net.parameters()))
    self.assertEqual({name for name, state in program.states.items() if state.requires_grad},
                     {"layers.3.weight", "layers.3.bias"})
    session = cotan.Session(program)
    session.run("train_step", self.features, self.target)
    states = session.state_dict()
    for name, value in self.net.state_dict().items():
      self.assertEqual(torch.equal(states[name], value), name.startswith("layers.0."), name)

  def test_an_optimizer_of_other_parameters_is_refused(self):
    other = Regression()
    with self.assertRaisesRegex(ValueError, "the optimizer has 4 parameters that Regression does not have"):
      self.Compile(optimizer=torch.optim.SGD(other.parameters(), lr=0.1))

  def test_training_and_evaluation_modes_are_exported_and_the_module_keeps_its_own(self):
    self.net.eval()
    self.net.layers[0].train()
    session = cotan.Session(self.Compile())
    self.assertFalse(self.net.training)
    self.assertFalse(self.net.layers[1].training)
    self.assertTrue(self.net.layers[0].training)
    evaluated, = session.run("eval", self.features)
    torch.testing.assert_close(evaluated, self.net(self.features).detach())
    dropped, _ = session.run("train_step", self.features, self.target)
    self.assertGreater((dropped - evaluated).abs().max().item(), 1e-3)

  def test_named_dimensions_are_dynamic(self):
    batch = ("batch", 2, 64)
    program = self.Compile(dynamic={"features": {0: batch}, "target": {0: "batch"}})
    self.assertEqual([(d.min, d.max) for d in program.dimensions], [(2, 64)])
    session = cotan.Session(program)
    for count in (2, 16, 64):
      prediction, _ = session.run("train_step", *Data(count))
      self.assertEqual(prediction.shape, (count, 1))

  def test_a_range_given_for_a_target_holds_for_the_inputs_of_every_method(self):
    program = self.Compile(dynamic={"features": {0: "batch"}, "target": {0: ("batch", 2, 64)}})
    self.assertEqual([(d.min, d.max) for d in program.dimensions], [(2, 64)])
    session = cotan.Session(program)
    self.assertEqual(session.run("eval", Data(64)[0])[0].shape, (64, 1))
    with self.assertRaisesRegex(cotan.CotanError, "OUT_OF_RANGE"):
      session.run("eval", Data(65)[0])

  def test_tensors_and_arrays_give_equal_results_of_their_kind(self):
    program = self.Compile()
    from_tensors = cotan.Session(program).run("eval", self.features)[0]
    from_arrays = cotan.Session(program).run("eval", self.features.numpy())[0]
    self.assertIsInstance(from_tensors, torch.Tensor)
    self.assertIsInstance(from_arrays, np.ndarray)
    np.testing.assert_array_equal(from_tensors.numpy(), from_arrays)

  def test_results_are_written_to_given_tensors(self):
    session = cotan.Session(self.Compile())
    expected = session.run("eval", self.features)[0]
    given = torch.empty_like(expected)
    result, = session.run("eval", self.features, out=[given])
    self.assertIs(result, given)
    self.assertTrue(torch.equal(given, expected))

  def test_tensors_and_arrays_are_not_copied(self):
    session = cotan.Session(self.Compile())
    by_columns = self.features.t().contiguous().t()
    for tensor in (self.features, by_columns, self.features.clone().requires_grad_()):
      with RecordedMemory() as (lent, viewed):
        result, = session.run("eval", tensor)
      self.assertEqual((lent, viewed), ([tensor.data_ptr()], [result.data_ptr()]))
    array = self.features.numpy()
    with RecordedMemory() as (lent, viewed):
      result, = session.run("eval", array)
    self.assertEqual((lent, viewed), ([array.ctypes.data], [result.ctypes.data]))

  def test_results_are_computed_in_the_memory_of_out(self):
    session = cotan.Session(self.Compile())
    expected = session.run("eval", self.features)[0]
    tensor = torch.empty_like(expected)
    array = np.empty((16, 1), np.float32)
    for given, memory in ((tensor, tensor.numpy()), (array, array), (Exported(array), array)):
      memory[...] = 0
      with RecordedMemory() as (lent, viewed):
        result, = session.run("eval", self.features, out=[given])
      self.assertIs(result, given)
      self.assertEqual((lent, viewed), ([self.features.data_ptr(), memory.ctypes.data], []))
      np.testing.assert_array_equal(memory, expected.numpy())
    every_other = torch.zeros(16, 2)[:, :1]
    with RecordedMemory() as (_, viewed):
      session.run("eval", self.features, out=[every_other])
    self.assertEqual(len(viewed), 1)
    self.assertTrue(torch.equal(every_other, expected))

  def test_objects_with_nothing_but_dlpack_are_not_copied(self):
    session = cotan.Session(self.Compile())
    array = self.features.numpy().copy()
    expected, = session.run("eval", array)
    for kind in (Exported, ExportedWithoutVersions):
      with RecordedMemory() as (lent, _):
        result, = session.run("eval", kind(array))
      self.assertEqual(lent, [array.ctypes.data])
      np.testing.assert_array_equal(result, expected)
    array.flags.writeable = False
    with self.assertRaisesRegex(BufferError, "readonly"):
      session.run("eval", Exported(array))

  def test_without_a_loss_there_are_forward_and_backward(self):
    path = os.path.join(self.folder.name, "net.cotan")
    program = cotan.compile(self.net.eval(), (self.features,), out=path)
    self.assertIn("forward", program.methods)
    self.assertIn("backward", program.methods)
    self.assertNotIn("train_step", program.methods)
    self.assertEqual(cotan.Session(path).program.methods, program.methods)

  def test_without_a_loss_the_forward_is_in_the_mode_of_the_module(self):
    expected = self.net.eval()(self.features).detach()
    for is_training in (True, False):
      session = cotan.Session(cotan.compile(self.net.train(is_training), (self.features,)))
      difference = (session.run("forward", self.features)[0] - expected).abs().max().item()
      self.assertEqual(difference > 1e-3, is_training)  # by dropout
      torch.testing.assert_close(session.run("eval", self.features)[0], expected)
      self.assertEqual(self.net.training, is_training)

  def test_numbers_of_16_bits_pass_as_tensors(self):
    net = nn.Linear(3, 2).to(torch.bfloat16)
    features = self.features.to(torch.bfloat16)
    session = cotan.Session(cotan.compile(net, (features,)))
    result, = session.run("eval", features)
    self.assertEqual(result.dtype, torch.bfloat16)
    torch.testing.assert_close(result, net(features).detach(), rtol=0.02, atol=0.02)
    with self.assertRaisesRegex(TypeError, "out 0 has dtype float32, but the result has dtype uint16"):
      session.run("eval", features, out=[torch.zeros(16, 2)])
    given = torch.zeros(16, 2, dtype=torch.bfloat16)
    session.run("eval", features, out=[given])
    self.assertTrue(torch.equal(given, result))

  def test_states_can_be_set_from_a_module(self):
    session = cotan.Session(self.Compile())
    other = Regression().eval()
    session.load_state_dict(other.state_dict())
    torch.testing.assert_close(session.run("eval", self.features)[0], other(self.features).detach())

  def test_states_that_the_program_does_not_have_are_refused_before_any_is_set(self):
    session = cotan.Session(self.Compile())
    before = session.state_dict()
    with self.assertRaisesRegex(KeyError, "layers.9.weight"):
      session.load_state_dict({**Regression().state_dict(), "layers.9.weight": torch.zeros(1)})
    for name, value in session.state_dict().items():
      self.assertTrue(torch.equal(value, before[name]), name)

  def test_a_refused_op_is_named_with_its_line(self):
    with self.assertRaises(cotan.CompileError) as caught:
      cotan.compile(Unsupported(), (torch.randn(3, 3),))
    text = str(caught.exception)
    self.assertIn("geqrf", text)
    self.assertRegex(text, r"cotan_test\.py:\d+, in forward: return torch\.geqrf\(x\)\[0\]")
    self.assertNotIn("reading /", text)  # a line of progress

  def Refused(self, script):
    """Returns the text of the error if the shell script is the compiler."""
    compiler = os.path.join(self.folder.name, "compile")
    with open(compiler, "w", encoding="utf-8") as file:
      file.write(f"#!/bin/sh\n{script}\n")
    os.chmod(compiler, 0o755)
    with mock.patch.dict(os.environ, {"COTAN_COMPILER": compiler}), self.assertRaises(cotan.CompileError) as caught:
      self.Compile()
    return str(caught.exception)

  def test_the_end_of_the_compiler_is_named_if_it_has_no_error(self):
    self.assertEqual(self.Refused("echo 'compiling ...' >&2; kill -KILL $$"),
                     "the compiler was ended by signal 9 (Killed)\ncompiling ...")
    self.assertEqual(self.Refused("exit 3"), "the compiler ended with status 3")

  def test_an_error_has_no_lines_of_progress(self):
    self.assertEqual(self.Refused("printf 'compiling ...\\nerror: too large\\nby 3 bytes\\n' >&2; exit 1"),
                     "too large\nby 3 bytes")

  def test_only_quoted_words_of_an_error_are_names_of_nodes(self):
    self.assertNotIn("in Python", self.Refused("echo 'error: tanh and linear are words' >&2; exit 1"))
    self.assertIn("in forward: return self.layers(features)", self.Refused('echo "error: no \'tanh\'" >&2; exit 1'))

  def test_arguments_that_do_not_fit_are_named(self):
    with self.assertRaisesRegex(ValueError, "both loss and optimizer"):
      cotan.compile(self.net, (self.features,), optimizer="sgd(lr=0.1)")
    with self.assertRaisesRegex(ValueError, "'feature'; the arguments are features, target"):
      self.Compile(dynamic={"feature": {0: "batch"}})
    with self.assertRaisesRegex(ValueError, r"'batch' two ranges, \(2, 64\) and \(1, 32\)"):
      self.Compile(dynamic={"features": {0: ("batch", 2, 64)}, "target": {0: ("batch", 1, 32)}})
    with self.assertRaisesRegex(ValueError, "LBFGS"):
      self.Compile(optimizer=torch.optim.LBFGS(self.net.parameters()))
    groups = [{"params": [p]} for p in self.net.parameters()]
    with self.assertRaisesRegex(ValueError, r"several parameter groups .* flags=\['--freeze=stem\.\*'\]"):
      self.Compile(optimizer=torch.optim.SGD(groups, lr=0.1))
    with self.assertRaisesRegex(cotan.CompileError, "there is no optimizer 'adagrad'"):
      self.Compile(optimizer="adagrad")

  def test_another_version_of_pytorch_is_refused(self):
    version = torch.__version__
    torch.__version__ = "1.0.0"
    try:
      with self.assertRaisesRegex(cotan.CompileError, "pip install torch=="):
        self.Compile()
    finally:
      torch.__version__ = version


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1])
