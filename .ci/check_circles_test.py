#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_circles.py."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_circles


def CirclesOf(files):
  return check_circles.Circles(check_circles.FolderGraph(list(files), lambda name: files[name]))


class CheckCirclesTest(unittest.TestCase):

  def testTwoFoldersThatIncludeEachOtherAreACircle(self):
    files = {"a/x.h": '#include "b/y.h"\n', "b/y.h": "", "b/z.cc": '#include "a/x.h"\n'}
    self.assertEqual(CirclesOf(files), [["a", "b"]])

  def testALongWayRoundIsACircle(self):
    files = {"a/x.h": '#include "b/x.h"', "b/x.h": '#include "c/x.h"', "c/x.h": '#include "a/x.h"'}
    self.assertEqual(CirclesOf(files), [["a", "b", "c"]])

  def testOneDirectionIsNone(self):
    files = {"a/x.h": '#include "b/y.h"\n', "b/y.h": "", "a/z.cc": '#include "b/y.h"\n'}
    self.assertEqual(CirclesOf(files), [])

  def testTestsMayIncludeWhatIsAbove(self):
    files = {"a/x.h": '#include "b/y.h"\n', "b/y.h": "", "b/y_test.cc": '#include "a/x.h"\n'}
    self.assertEqual(CirclesOf(files), [])

  def testSchemasCount(self):
    files = {"a/x.proto": 'import "b/y.proto";', "b/y.proto": "", "b/z.cc": '#include "a/x.pb.h"'}
    self.assertEqual(CirclesOf(files), [["a", "b"]])


if __name__ == "__main__":
  unittest.main()
