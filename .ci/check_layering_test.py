#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of check_layering.py."""

import importlib.util
import pathlib
import tempfile
import unittest

_SPEC = importlib.util.spec_from_file_location(
    "check_layering", pathlib.Path(__file__).with_name("check_layering.py"))
check_layering = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(check_layering)

_RULES = """<query>
  <rule class="cc_library" name="//a:a">
    <list name="srcs"><label value="//a:a.cc"/><label value="//a:inner.h"/></list>
    <list name="hdrs"><label value="//a:a.h"/></list>
    <list name="deps"><label value="//:schema_cc"/></list>
  </rule>
  <rule class="cc_library" name="//b:b">
    <list name="srcs"><label value="//b:b.cc"/></list>
    <list name="hdrs"><label value="//b:b.h"/></list>
    <list name="deps"><label value="//a:a"/><label value="@other//:other"/></list>
  </rule>
  <rule class="cc_test" name="//b:test">
    <list name="srcs"><label value="//b:test.cc"/></list>
    <list name="deps"><label value="//b:b"/></list>
  </rule>
  <rule class="cc_proto_library" name="//:schema_cc">
    <list name="deps"><label value="//:schema"/></list>
  </rule>
  <rule class="proto_library" name="//:schema">
    <list name="srcs"><label value="//:schema.proto"/></list>
  </rule>
</query>"""


class CheckLayeringTest(unittest.TestCase):

  def Violations(self, **files):
    """Those of a workspace whose files ("b_test" is b/test.cc) have these contents."""
    with tempfile.TemporaryDirectory() as folder:
      workspace = pathlib.Path(folder)
      for name in ("a/a.cc", "a/a.h", "a/inner.h", "b/b.cc", "b/b.h", "b/test.cc"):
        path = workspace / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(files.get(name.replace("/", "_").removesuffix(".cc").replace(".", "_"), ""))
      return list(check_layering.FindViolations(check_layering.ParseTargets(_RULES), workspace))

  def testOwnAndDirectHeadersMayBeIncluded(self):
    self.assertEqual(
        self.Violations(a_a='#include "a/inner.h"\n#include "schema.pb.h"\n',
                        b_b='#include "a/a.h"\n#include "b/b.h"\n#include <vector>\n',
                        b_test='#include "b/b.h"\n#include "gtest/gtest.h"\n'), [])

  def testHeadersOfIndirectDependenciesMayNot(self):
    self.assertEqual(
        self.Violations(b_test='#include "a/a.h"\n'), [("b/test.cc", "a/a.h", "//b:test")])
    self.assertEqual(
        self.Violations(b_b='  #  include "schema.pb.h"\n'), [("b/b.cc", "schema.pb.h", "//b:b")])

  def testPrivateHeadersMayNot(self):
    self.assertEqual(
        self.Violations(b_b_h='#include "a/inner.h"\n'), [("b/b.h", "a/inner.h", "//b:b")])


if __name__ == "__main__":
  unittest.main()
