#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of count_tests.py."""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile
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


# What testing/models/shared_models_test.sh writes without its folder.
SKIPPED_SCRIPT = """<testsuites><testsuite name="m" tests="1" skipped="1">
<testcase name="m"><skipped message="there is no folder"/></testcase></testsuite></testsuites>"""


class CountTestsTest(unittest.TestCase):

  def testCasesAreCountedByOutcome(self):
    counts = count_tests.Counts()
    count_tests.CountCases("//base:layout_test", "FAILED", REPORT, counts)
    self.assertEqual(counts.passed, 1)
    self.assertEqual(counts.failed, ["//base:layout_test Layout.Fails"])
    self.assertEqual(len(counts.skipped), 2)

  def testScriptThatReportsThatItWasSkippedHasNotPassed(self):
    counts = count_tests.Counts()
    count_tests.CountCases("//m:m", "PASSED", SKIPPED_SCRIPT, counts)
    self.assertEqual((counts.passed, counts.failed, counts.skipped), (0, [], ["//m:m .m"]))

  def testSkippedCaseNeedsAReason(self):
    counts = count_tests.Counts(skipped=["//a:t OnGpu.Copies", "//a:t Layout.Skips"])
    count_tests.CheckSkips([("//a:t OnGpu.*", "needs a GPU")], counts)
    self.assertEqual(counts.skipped, ["//a:t OnGpu.Copies: needs a GPU"])
    self.assertEqual(counts.failed, ["//a:t Layout.Skips (skipped, and not in .ci/skips.txt)"])

  def testRulesHaveReasons(self):
    for pattern, reason in count_tests.LoadSkips(pathlib.Path(__file__).with_name("skips.txt")):
      self.assertTrue(pattern.startswith("//"), pattern)
      self.assertTrue(reason.strip(), pattern)

  def testLastLineHasThePassedTheFailedAndTheSkipped(self):
    with tempfile.TemporaryDirectory() as folder:
      report = pathlib.Path(folder, "test.xml")
      report.write_text(SKIPPED_SCRIPT)
      events = pathlib.Path(folder, "events.json")
      events.write_text("\n".join(json.dumps(event) for event in [
          Result("//a:t", "PASSED"),
          Result("//m:m", "PASSED", report.as_uri()),
          Result("//testing/models:shared_models_test", "PASSED", self.SharedModelsReport(folder))]))
      script = pathlib.Path(__file__).with_name("count_tests.py")
      printed = subprocess.run([sys.executable, script, events, "0"], capture_output=True, text=True, check=False)
    self.assertEqual(printed.returncode, 1)
    self.assertEqual(
        printed.stdout,
        "skipped: //testing/models:shared_models_test .shared_models_test: "
        "needs the folder shared/models, which is not in the repository\n"
        "FAILED: //m:m .m (skipped, and not in .ci/skips.txt)\n"
        "1 passed, 1 failed, 1 skipped\n")

  def SharedModelsReport(self, folder):
    report = pathlib.Path(folder, "shared_models.xml")
    report.write_text(SKIPPED_SCRIPT.replace('name="m"', 'name="shared_models_test"'))
    return report.as_uri()

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
