#!/usr/bin/env python3
"""Tests of count_tests.py."""

import importlib.util
import pathlib
import unittest

_SPEC = importlib.util.spec_from_file_location(
    "count_tests", pathlib.Path(__file__).with_name("count_tests.py"))
count_tests = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(count_tests)

REPORT = """<testsuites><testsuite name="Layout">
<testcase name="Passes" status="run" result="completed" classname="Layout" />
<testcase name="Fails" status="run" classname="Layout"><failure message="1 != 2"/></testcase>
<testcase name="Skips" status="run" result="skipped" classname="Layout"><skipped/></testcase>
<testcase name="Disabled" status="notrun" result="suppressed" classname="Layout" />
</testsuite></testsuites>"""


def Result(label, status, report=None, attempt=1):
  outputs = [{"name": "test.xml", "uri": report}] if report else []
  return {
      "id": {"testResult": {"label": label, "run": 1, "shard": 1, "attempt": attempt}},
      "testResult": {"status": status, "testActionOutput": outputs},
  }


class CountTestsTest(unittest.TestCase):

  def testCasesAreCountedByOutcome(self):
    counts = count_tests.Counts()
    count_tests.CountCases("//base:layout_test", "FAILED", REPORT, counts)
    self.assertEqual(counts.passed, 1)
    self.assertEqual(counts.failed, ["//base:layout_test Layout.Fails"])
    self.assertEqual(len(counts.skipped), 2)

  def testTestWithoutReportCountsAsOne(self):
    counts = count_tests.CountEvents([Result("//a:t", "PASSED"), Result("//b:t", "TIMEOUT")], 3)
    self.assertEqual((counts.passed, counts.failed), (1, ["//b:t (TIMEOUT)"]))

  def testLastAttemptCounts(self):
    counts = count_tests.CountEvents(
        [Result("//a:t", "FAILED", attempt=1), Result("//a:t", "PASSED", attempt=2)], 0)
    self.assertEqual((counts.passed, counts.failed), (1, []))

  def testTargetThatDoesNotBuildFailsOnce(self):
    label = {"label": "//a:t"}
    counts = count_tests.CountEvents([
        {"id": {"targetCompleted": label}, "completed": {}},
        {"id": {"testSummary": label}, "aborted": {"reason": "NO_BUILD"}},
    ], 1)
    self.assertEqual(counts.failed, ["//a:t (did not build)"])

  def testIncompatibleTargetIsNoFailure(self):
    counts = count_tests.CountEvents(
        [{"id": {"targetCompleted": {"label": "//a:gpu"}}, "aborted": {"reason": "SKIPPED"}}], 0)
    self.assertEqual((counts.passed, counts.failed), (0, []))

  def testFailureThatNoTargetExplainsIsCounted(self):
    self.assertEqual(count_tests.CountEvents([], 37).failed, ["bazel (exit status 37)"])


if __name__ == "__main__":
  unittest.main()
