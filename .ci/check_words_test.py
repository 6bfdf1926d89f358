#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_words.py."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import check_words

_RULES = check_words.LoadRules(pathlib.Path(__file__).resolve().parent / "words.txt")


def MessagesOf(name, text):
  return [f"{line}: {message}" for line, message in check_words.Problems(pathlib.Path(name), text, _RULES)]


class CheckWordsTest(unittest.TestCase):

  def testAWordOfTheListIsFoundInAComment(self):
    self.assertEqual(len(MessagesOf("x.cc", "// Nobody reads it.\nint x;\n")), 1)
    self.assertEqual(len(MessagesOf("x.cc", "int x;  // nobody reads it\n")), 1)

  def testAWordOfTheListIsFoundInAnErrorMessage(self):
    self.assertEqual(len(MessagesOf("x.cc", 'return Error("the method tells of inputs");\n')), 1)

  def testNamesInCodeAreNotRead(self):
    self.assertEqual(MessagesOf("x.cc", "tell(dear);\n// Calls `tell`.\n"), [])
    self.assertEqual(MessagesOf("x.md", "```\nnobody\n```\n`nobody`\n"), [])

  def testThereIsNoIsAllowed(self):
    self.assertEqual(MessagesOf("x.md", "There is no limit. It is no longer used.\n"), [])
    self.assertEqual(len(MessagesOf("x.md", "It is no view.\n")), 1)

  def testTheSameIsNoDocstring(self):
    self.assertEqual(len(MessagesOf("x.h", "int a;\n// The same.\nint b;\n")), 1)

  def testADocstringBeginsWithAVerb(self):
    self.assertEqual(len(MessagesOf("x.h", "int a;\n// What it is.\nint b;\n")), 1)
    self.assertEqual(MessagesOf("x.h", "int a;\n// Returns what it is.\nint b;\n"), [])

  def testALineThatEndsEarlyIsFound(self):
    wide = "// This line of the comment is as wide as lines of this block are, and so it ends here, at the\n"
    self.assertEqual(len(MessagesOf("x.cc", wide + "// margin, but\n// this one does not.\n")), 1)
    self.assertEqual(MessagesOf("x.cc", wide + "// margin, and this one does so as well, which is why there is nothing to be said of\n// it.\n"), [])


if __name__ == "__main__":
  unittest.main()
