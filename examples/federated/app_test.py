# SPDX-License-Identifier: Apache-2.0
"""Tests of the app and of demo.py that need no Flower.

Usage: app_test.py PROGRAM

PROGRAM is the compiled program of //examples/digits.
"""

import argparse
import os
import pathlib
import signal
import sys
import tempfile
import unittest
from unittest import mock

import cotan_runtime as cotan
import demo
import numpy as np
from digits_federation import task

_PROGRAM, = sys.argv[1:]


def Images(count):
  return np.zeros((count, 1, 28, 28), np.float32), np.zeros(count, np.int64)


class TaskTest(unittest.TestCase):

  def setUp(self):
    self.session = cotan.Session(cotan.Program.load(_PROGRAM), threads=1)

  def Train(self, count):
    return task.train(self.session, *Images(count), 32, 1, np.random.default_rng(0))

  def test_training_takes_whole_batches(self):
    loss, count = self.Train(70)
    self.assertTrue(np.isfinite(loss))
    self.assertEqual(count, 64)

  def test_fewer_images_than_a_batch_are_refused(self):
    with self.assertRaisesRegex(ValueError, "the device has 31 images to train with, but a batch has 32"):
      self.Train(31)

  def test_an_accuracy_of_no_images_is_refused(self):
    with self.assertRaisesRegex(ValueError, "there are no images to evaluate"):
      task.accuracy(self.session, *Images(0), 32)

  def test_a_round_of_secure_aggregation_needs_three_devices(self):
    for devices, fraction, secure, expected in ((3, 1.0, True, 3), (3, 0.67, False, 2), (2, 0.1, False, 1)):
      config = {"devices": devices, "fraction": fraction, "secure": secure}
      self.assertEqual(task.devices_of_round(config), expected)
    with self.assertRaisesRegex(ValueError, "fraction=0.67 of devices=3 are 2;"):
      task.devices_of_round({"devices": 3, "fraction": 0.67, "secure": True})


class FederationTest(unittest.TestCase):

  def Federation(self, script):
    """Returns a federation whose SuperLink is a shell script."""
    folder = tempfile.TemporaryDirectory()
    self.addCleanup(folder.cleanup)
    superlink = pathlib.Path(folder.name) / "flower-superlink"
    superlink.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    superlink.chmod(0o755)
    with mock.patch.dict(os.environ, {"PATH": f"{folder.name}:{os.environ['PATH']}"}):
      return demo.Federation(argparse.Namespace(devices=1))

  def test_a_superlink_that_ends_is_an_error_with_its_log(self):
    federation = self.Federation("echo 'the port is taken'; exit 3")
    with self.assertRaisesRegex(RuntimeError, "the SuperLink ended with status 3:\nthe port is taken"):
      with federation:
        self.fail("entered")
    self.assertFalse(federation._folder.exists())

  def test_an_interrupted_start_ends_the_superlink(self):
    federation = self.Federation("sleep 600")
    with mock.patch.object(federation, "_wait_for_superlink", side_effect=KeyboardInterrupt):
      with self.assertRaises(KeyboardInterrupt):
        with federation:
          self.fail("entered")
    (_, superlink), = federation._processes
    self.assertEqual(superlink.returncode, -signal.SIGTERM)
    self.assertFalse(federation._folder.exists())


if __name__ == "__main__":
  unittest.main(argv=sys.argv[:1])
