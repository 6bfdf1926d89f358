#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_aarch64.py."""

import importlib.util
import pathlib
import unittest

_SPEC = importlib.util.spec_from_file_location("check_aarch64", pathlib.Path(__file__).with_name("check_aarch64.py"))
check_aarch64 = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(check_aarch64)

_RULES = """<query>
  <rule class="cc_test" name="//base:a_test"/>
  <rule class="cc_test" name="//kernels/cpu:b_test"/>
  <rule class="cc_library" name="//kernels/cpu:cpu"/>
  <rule class="cc_test" name="//aot:c_test"/>
  <rule class="sh_test" name="//examples/chars:train_test"/>
  <rule class="sh_test" name="//base:target_test"/>
</query>"""
_BUILD = """
        "//base:a_test",
        # "//kernels/cpu:b_test",
"""


_SCRIPT = "//examples/chars:train_test\ttakes long\n"


class CheckAarch64Test(unittest.TestCase):

  def Mistakes(self, exclusions, build=_BUILD):
    return list(check_aarch64.FindMistakes(check_aarch64.TestsOf(_RULES), build, exclusions))

  def testListedAndExcludedTestsPass(self):
    self.assertEqual(self.Mistakes(_SCRIPT + "# comment\n//kernels/*\tneeds x86-64\n"), [])

  def testOtherTestsAreNamed(self):
    mistakes = self.Mistakes(_SCRIPT)
    self.assertEqual(len(mistakes), 1)
    self.assertIn("//kernels/cpu:b_test is not in testing/aarch64/BUILD.bazel", mistakes[0])

  def testScriptsOfExamplesAreNamed(self):
    mistakes = self.Mistakes("//kernels/*\tneeds x86-64\n")
    self.assertEqual(len(mistakes), 1)
    self.assertIn("//examples/chars:train_test is not in", mistakes[0])

  def testATestIsInOneListOnly(self):
    mistakes = self.Mistakes("//*\tneeds x86-64\n")
    self.assertEqual(mistakes, ["//base:a_test is in testing/aarch64/BUILD.bazel and in .ci/not_on_aarch64.txt"])

  def testExclusionsFitATest(self):
    mistakes = self.Mistakes(_SCRIPT + "//kernels/cpu:b_test\tneeds x86-64\n//aot:c_test\tneeds LibTorch\n")
    self.assertEqual(mistakes, ["//aot:c_test of .ci/not_on_aarch64.txt fits no test"])

  def testExclusionsHaveAReason(self):
    with self.assertRaises(ValueError):
      self.Mistakes("//kernels/cpu:b_test\t\n")


if __name__ == "__main__":
  unittest.main()
