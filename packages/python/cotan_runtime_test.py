# SPDX-License-Identifier: Apache-2.0
"""Tests of the installed package cotan_runtime.

Usage: cotan_runtime_test.py ARTIFACT EFFECTS

ARTIFACT is the compiled program of //examples/digits, EFFECTS what //capi:effect_program writes.
"""

import gc
import os
import pathlib
import sys
import tempfile
import threading
import unittest
import weakref

import cotan_runtime as cotan
import numpy as np
from cotan_runtime import _tensors

_ARTIFACT, _EFFECTS = sys.argv[1:]
_FLOAT32 = _tensors.NUMPY_DTYPES.index(np.float32)


def Batch(seed, count=64):
  """Returns images with a bright square on noise, and its places as labels."""
  random = np.random.default_rng(seed)
  labels = random.integers(0, 10, count)
  images = random.random((count, 1, 28, 28), np.float32) * np.float32(0.5)
  for image, label in zip(images, labels):
    y, x = label // 5 * 14 + 4, label % 5 * 5 + 1
    image[0, y:y + 5, x:x + 5] += 1
  return images, labels


class RuntimeTest(unittest.TestCase):

  def setUp(self):
    self.program = cotan.Program.load(pathlib.Path(_ARTIFACT))
    self.session = cotan.Session(self.program, threads=1)

  def Train(self, session, first, steps):
    return [float(session.run("train_step", *Batch(seed))[1]) for seed in range(first, first + steps)]

  def test_training_lowers_the_loss_and_reads_the_labels(self):
    losses = self.Train(self.session, 0, 40)
    self.assertLess(np.mean(losses[-5:]), 0.5 * np.mean(losses[:5]))
    images, labels = Batch(99)
    logits, = self.session.run("eval", images)
    self.assertEqual(logits.dtype, np.float32)
    self.assertGreater(np.mean(logits.argmax(axis=1) == labels), 0.9)

  def test_subnormal_numbers_are_zeros_if_the_session_flushes_them(self):
    name = "optimizer.conv1.weight.exp_avg"
    for flush, count in ((False, 0), (True, 16 * 9)):
      session = cotan.Session(self.program, threads=1, flush_denormals=flush)
      session.set_state(name, np.full((16, 1, 3, 3), 5e-39, np.float32))
      session.run("train_step", np.zeros((1, 1, 28, 28), np.float32), np.zeros(1, np.int64))
      self.assertEqual(np.count_nonzero(session.state(name).view(np.int32) == 0), count)

  def test_the_package_does_not_load_torch(self):
    self.assertNotIn("torch", sys.modules)

  def test_the_program_is_described(self):
    step = self.program.methods["train_step"]
    self.assertEqual([value.type for value in step.inputs], ["f32[s0,1,28,28]", "i64[s0]"])
    self.assertEqual(step.inputs[0].shape, (-1, 1, 28, 28))
    self.assertEqual(step.outputs[1].name, "loss")
    self.assertEqual(step.outputs[1].dtype, np.float32)
    self.assertEqual(self.program.dimensions, (cotan.Dimension("batch", 1, 64),))
    weight = self.program.states["conv1.weight"]
    self.assertEqual((weight.shape, weight.role, weight.requires_grad), ((16, 1, 3, 3), "parameter", True))
    self.assertEqual(self.program.states["optimizer.conv1.weight.exp_avg"].owner, "conv1.weight")

  def test_bytes_and_file_give_the_same_program(self):
    program = cotan.Program.from_bytes(pathlib.Path(_ARTIFACT).read_bytes())
    self.assertEqual(program.methods, self.program.methods)
    self.assertEqual(self.Train(cotan.Session(program, threads=1), 0, 1), self.Train(self.session, 0, 1))

  def test_arrays_of_any_layout_give_the_same_numbers(self):
    images, _ = Batch(1)
    expected, = self.session.run("eval", images)
    channels_last = np.ascontiguousarray(images.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    reversed_twice = np.ascontiguousarray(images[::-1])[::-1]
    read_only = images.copy()
    read_only.flags.writeable = False
    swapped = images.astype(">f4")
    for layout in (channels_last, reversed_twice, read_only, swapped):
      result, = self.session.run("eval", layout)
      np.testing.assert_array_equal(result, expected)

  def test_results_are_written_to_given_arrays(self):
    images, _ = Batch(1)
    expected, = self.session.run("eval", images)
    out = np.zeros((64, 10), np.float32)
    strided = np.zeros((64, 20), np.float32)[:, ::2]
    for array in (out, strided):
      result, = self.session.run("eval", images, out=[array])
      self.assertIs(result, array)
      np.testing.assert_array_equal(array, expected)
    with self.assertRaisesRegex(ValueError, r"out 0 has shape \(10,\), but the result has shape \(64, 10\)"):
      self.session.run("eval", images, out=[np.zeros(10, np.float32)])
    swapped = np.zeros((64, 10), ">f4")
    self.session.run("eval", images, out=[swapped])
    np.testing.assert_array_equal(swapped, expected)
    with self.assertRaisesRegex(ValueError, "out has 2 arrays, but method 'eval' has 1 results"):
      self.session.run("eval", images, out=[out, out])

  def test_arrays_that_results_do_not_fit_are_refused_before_the_run(self):
    images, labels = Batch(1)
    logits, loss = np.zeros((64, 10), np.float32), np.zeros((), np.float32)
    read_only = logits.copy()
    read_only.flags.writeable = False
    before = self.session.state("conv1.weight")
    for error, text, out in (
        (TypeError, "out 0 has dtype int64, but the result has dtype float32", [logits.astype(np.int64), loss]),
        (TypeError, "out 1 has dtype float64, but the result has dtype float32", [logits, np.zeros(())]),
        (TypeError, "out 0 is a list, but has to be an array", [logits.tolist(), loss]),
        (ValueError, "out 0 is read-only", [read_only, loss]),
        (ValueError, r"out 1 has shape \(1,\), but the result has shape \(\)", [logits, np.zeros(1, np.float32)]),
        (ValueError, r"out 0 has shape \(32, 10\), but the result has shape \(64, 10\)", [logits[:32], loss]),
    ):
      with self.assertRaisesRegex(error, text):
        self.session.run("train_step", images, labels, out=out)
      np.testing.assert_array_equal(self.session.state("conv1.weight"), before)
    self.session.run("train_step", images, labels, out=[logits, loss])
    self.assertGreater(loss, 0)
    self.assertFalse(np.array_equal(self.session.state("conv1.weight"), before))

  def test_results_outlive_the_session(self):
    images, _ = Batch(1)
    logits, = self.session.run("eval", images)
    kept = logits.copy()
    del self.session
    gc.collect()
    np.testing.assert_array_equal(logits, kept)

  def test_borrowed_arrays_are_released(self):
    before = len(_tensors._lent)
    for _ in range(3):
      self.session.run("eval", Batch(1)[0])
    gc.collect()
    self.assertEqual(len(_tensors._lent), before)

  def test_a_tensor_may_be_freed_while_another_is_made(self):
    freed = []

    def Free():
      tensor = _tensors.borrow(np.zeros(3, np.float32), _FLOAT32, "array")
      with _tensors._lock:  # as borrow() holds it, in which the garbage collector may run
        del tensor
      freed.append(True)

    thread = threading.Thread(target=Free, daemon=True)
    thread.start()
    thread.join(timeout=30)
    self.assertEqual(freed, [True])

  def test_arrays_are_destroyed_without_the_lock(self):
    taken = []

    def Take():
      taken.append(_tensors._lock.acquire(timeout=1))
      if taken[0]:
        _tensors._lock.release()

    def InAnotherThread():
      thread = threading.Thread(target=Take)
      thread.start()
      thread.join()

    array = np.zeros(3, np.float32)
    weakref.finalize(array, InAnotherThread)
    tensor = _tensors.borrow(array, _FLOAT32, "array")
    del array
    del tensor
    self.assertEqual(taken, [True])

  def test_errors_have_a_status_and_a_text(self):
    images, labels = Batch(1)
    for expected, call in (
        ("NOT_FOUND", lambda: cotan.Program.load("/nowhere/net.cotan")),
        ("INVALID_ARGUMENT", lambda: cotan.Program.from_bytes(b"no program")),
        ("NOT_FOUND", lambda: self.session.run("train", images, labels)),
        ("INVALID_ARGUMENT", lambda: self.session.run("train_step", images)),
        ("INVALID_ARGUMENT", lambda: self.session.run("eval", images, labels)),
        ("INVALID_ARGUMENT", lambda: self.session.run("eval", images.astype(np.float64))),
        ("INVALID_ARGUMENT", lambda: self.session.run("eval", 1.0)),
        ("OUT_OF_RANGE", lambda: self.session.run("eval", np.zeros((65, 1, 28, 28), np.float32))),
        ("NOT_FOUND", lambda: self.session.state("conv9.weight")),
        ("NOT_FOUND", lambda: self.session.set_state("conv9.weight", images)),
        ("NOT_FOUND", lambda: self.session.hyperparameter("momentum")),
        ("INVALID_ARGUMENT", lambda: cotan.Session(self.program, threads=-1)),
    ):
      with self.assertRaises(cotan.CotanError) as raised:
        call()
      self.assertEqual(raised.exception.status, expected)
      self.assertRegex(raised.exception.message, "^cotan_[a-z_]+: ")
    with self.assertRaisesRegex(TypeError, "argument 0: Cotan has no dtype for arrays of"):
      self.session.run("eval", images.astype(np.uint32))

  def test_integers_that_do_not_fit_are_refused(self):
    self.session.rng = (5, 7)
    for name, call in (
        ("argument 0 is 18446744073709551621", lambda: self.session.run("eval", 2**64 + 5)),
        ("threads is 4294967296", lambda: cotan.Session(self.program, threads=2**32)),
        ("max_plans is -4294967295", lambda: cotan.Session(self.program, max_plans=1 - 2**32)),
        ("group is 4294967296", lambda: self.session.hyperparameter("lr", group=2**32)),
        ("group is 4294967296", lambda: self.session.set_hyperparameter("lr", 0.5, group=2**32)),
        ("seed is 9223372036854775808", lambda: setattr(self.session, "rng", (2**63, 0))),
        ("offset is 18446744073709551616", lambda: setattr(self.session, "rng", (0, 2**64))),
    ):
      with self.assertRaisesRegex(OverflowError, f"^{name}, which does not fit in an integer of"):
        call()
    self.assertEqual(self.session.rng, (5, 7))
    self.session.rng = (np.int64(-2**63), np.uint8(3))
    self.assertEqual(self.session.rng, (-2**63, 3))

  def test_a_path_that_is_not_utf_8_is_named(self):
    with self.assertRaisesRegex(cotan.CotanError, "NOT_FOUND: .*net.*cotan"):
      cotan.Program.load(b"/nowhere/net\xff.cotan")

  def test_threads_have_their_own_errors(self):
    texts = {}

    def Fail(name):
      for _ in range(200):
        try:
          self.program.load(f"/nowhere/{name}")
        except cotan.CotanError as error:
          texts.setdefault(name, set()).add(error.message)

    threads = [threading.Thread(target=Fail, args=(name,)) for name in ("first", "second")]
    for thread in threads:
      thread.start()
    for thread in threads:
      thread.join()
    for name, found in texts.items():
      self.assertEqual(len(found), 1)
      self.assertIn(name, found.pop())

  def test_states_hyperparameters_and_generator_are_set(self):
    self.session.set_state("output.bias", np.arange(10, dtype=np.float32))
    np.testing.assert_array_equal(self.session.state("output.bias"), np.arange(10))
    self.session.set_state("output.bias", [1] * 10)
    np.testing.assert_array_equal(self.session.state("output.bias"), np.ones(10))
    self.session.set_hyperparameter("lr", 0.0)
    self.assertEqual(self.session.hyperparameter("lr"), 0.0)
    before = self.session.state("conv1.weight")
    self.Train(self.session, 0, 1)
    np.testing.assert_array_equal(self.session.state("conv1.weight"), before)
    self.session.rng = (5, 7)
    self.assertEqual(self.session.rng, (5, 7))

  def test_training_continues_from_a_checkpoint_with_the_same_bits(self):
    self.Train(self.session, 0, 3)
    with tempfile.TemporaryDirectory() as folder:
      path = os.path.join(folder, "digits.safetensors")
      self.session.save_checkpoint(path)
      resumed = cotan.Session(self.program, threads=1)
      resumed.load_checkpoint(path)
    self.assertEqual(self.Train(resumed, 3, 3), self.Train(self.session, 3, 3))

  def test_plans_are_described_and_timed(self):
    images, _ = Batch(1)
    _, times = self.session.run_timed("eval", images)
    summary = self.session.plan_summary("eval")
    self.assertEqual(len(times), summary["num_steps"])
    self.assertEqual(summary["host_bytes"], 0)
    self.assertGreater(sum(times), 0)
    self.assertIn(f"method 'eval': {summary['num_steps']} steps", self.session.plan_text("eval"))
    self.assertGreater(self.session.arena_bytes, 0)
    self.assertGreater(self.session.state_bytes, 0)
    self.assertEqual(self.session.num_plans_made, 1)
    self.session.synchronize()

  def test_bf16_numbers_are_converted_as_bits(self):
    values = np.array([1, -2.5, 3.14159, 1e-40, np.inf, np.nan], np.float32)
    bits = cotan.to_bf16(values)
    self.assertEqual(bits.dtype, np.uint16)
    np.testing.assert_allclose(cotan.from_bf16(bits)[:3], values[:3], rtol=2**-8)
    self.assertTrue(np.isnan(cotan.from_bf16(bits)[5]))
    self.assertEqual(cotan.to_bf16(np.float32(1 + 2**-8)), cotan.to_bf16(np.float32(1)))  # the even one
    for shape in ((), (0,), (2, 3)):
      ones = np.ones(shape, np.float32)
      self.assertEqual(cotan.to_bf16(ones).shape, shape)
      self.assertEqual(cotan.to_bf16(ones).dtype, np.uint16)
      self.assertEqual(cotan.from_bf16(cotan.to_bf16(ones)).dtype, np.float32)
      np.testing.assert_array_equal(cotan.from_bf16(cotan.to_bf16(ones)), ones)


class EffectTest(unittest.TestCase):

  def setUp(self):
    self.program = cotan.Program.load(_EFFECTS)
    self.events = []

  def Record(self, kind, name, message, array):
    self.events.append((kind, name, message, array.tolist()))

  def Run(self, session, is_odd):
    result, = session.run("double", np.array([1, 2], np.float32), np.array(is_odd))
    return result.tolist()

  def test_prints_are_passed_on_and_failed_assertions_end_the_run(self):
    session = cotan.Session(self.program, threads=1, on_effect=self.Record)
    self.assertEqual(self.Run(session, True), [2, 4])
    self.assertEqual(self.events, [("print", "fc", "first", [1, 2])])
    with self.assertRaisesRegex(cotan.CotanError, "INVALID_ARGUMENT: .*x is odd"):
      self.Run(session, False)

  def test_failed_assertions_are_passed_on_if_they_are_handled(self):
    session = cotan.Session(self.program, threads=1, on_effect=self.Record, handle_assertions=True)
    self.assertEqual(self.Run(session, False), [2, 4])
    self.assertEqual([event[:3] for event in self.events], [("print", "fc", "first"), ("assert", "check", "x is odd")])

  def test_what_the_function_raises_ends_the_run(self):

    class Stop(BaseException):
      pass

    def Raise(kind, *_):
      if kind == "assert":
        raise Stop()

    session = cotan.Session(self.program, threads=1, on_effect=Raise, handle_assertions=True)
    with self.assertRaises(Stop):
      self.Run(session, False)
    self.assertEqual(self.Run(session, True), [2, 4])

  def test_a_program_with_prints_needs_a_function(self):
    with self.assertRaisesRegex(cotan.CotanError, "FAILED_PRECONDITION: .*fc"):
      cotan.Session(self.program)


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1])
