#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_public_headers.py."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_public_headers

_FILES = {"a.h": '#include "b.h"\n#include "absl/x.h"\n#include <vector>\n', "b.h": '#include "c.h"\n', "c.h": ""}


def DifferencesFrom(allowed):
  return list(check_public_headers.Differences(check_public_headers.Included(["a.h"], _FILES.get), allowed))


class CheckPublicHeadersTest(unittest.TestCase):

  def testListedHeadersAreAllowed(self):
    self.assertEqual(DifferencesFrom({"a.h", "b.h", "c.h"}), [])

  def testAnotherHeaderIsReportedWithItsPath(self):
    self.assertEqual(DifferencesFrom({"a.h", "b.h"}), ["not in .ci/public_headers.txt: a.h -> b.h -> c.h"])

  def testALineTooManyIsReported(self):
    self.assertEqual(DifferencesFrom({"a.h", "b.h", "c.h", "d.h"}),
                     ["in .ci/public_headers.txt, but no public header includes it: d.h"])


if __name__ == "__main__":
  unittest.main()
