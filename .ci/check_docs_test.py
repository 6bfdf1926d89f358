#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_docs.py."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_docs


def Wrong(text):
  return check_docs.WrongRows(text, {"ATest.Holds"}, {"plain"})


class WrongRowsTest(unittest.TestCase):

  def testTestsCasesAndReasonsAreRight(self):
    self.assertEqual(Wrong("# head\n\nA-1\ttitle\tATest.Holds, case:plain\tnote\nA-2\ttitle\t-\treason\n"), [])

  def testAnIdMayBeginWithTheSignOfComments(self):
    self.assertEqual(Wrong("#123\ttitle\tATest.Fails\n"), [(1, "`ATest.Fails` does not exist")])

  def testNamesMustExist(self):
    self.assertEqual(Wrong("A-1\tt\tcase:other\n"), [(1, "`case:other` does not exist")])

  def testRowsNeedATestOrAReason(self):
    self.assertEqual(Wrong("A-1\tt\t-\n"), [(1, "A-1 has neither a test nor a reason")])
    self.assertEqual(len(Wrong("A-1\tt\n")), 1)
    self.assertEqual(len(Wrong("A-1\tt\tATest.Holds\t\n")), 1)

  def testIdsAreUnique(self):
    self.assertEqual(Wrong("A-1\tt\tATest.Holds\nA-1\tt\tATest.Holds\n"), [(2, "the id A-1 is there already")])


if __name__ == "__main__":
  unittest.main()
