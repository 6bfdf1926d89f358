# SPDX-License-Identifier: Apache-2.0
"""Checks that each test of the runtime half and of the examples runs on aarch64, or is excluded with a reason.

Usage: check_aarch64.py [WORKSPACE] < rules.xml

where rules.xml is the output of

  bazel query --output=xml 'kind("cc_.*|proto_library|sh_test", //...)'

Prints each cc_test of the folders below, and each sh_test of the examples, that
testing/aarch64/BUILD.bazel does not list and .ci/not_on_aarch64.txt does not exclude, each that is
in both, and each exclusion that fits no test; it exits with 1 if there is one.
"""

import fnmatch
import pathlib
import re
import sys
from xml.etree import ElementTree

_FOLDERS = ("base", "examples", "kernels", "linking", "planning", "runtime", "serialization")
_LABEL = re.compile(r'^\s*"(//[^":]+:[^":]+)",$', re.MULTILINE)


def TestsOf(xml):
  """Returns the labels of the tests, from the output of `bazel query --output=xml`."""
  tests = []
  for rule in ElementTree.fromstring(xml).iter("rule"):
    name, kind = rule.get("name"), rule.get("class")
    folder = re.split("[/:]", name.removeprefix("//"))[0]
    if folder in _FOLDERS and (kind == "cc_test" or kind == "sh_test" and folder == "examples"):
      tests.append(name)
  return sorted(tests)


def ParseExclusions(text):
  """Returns the patterns of labels in the lines "PATTERN<tab>REASON"."""
  patterns = []
  for line in text.splitlines():
    if line and not line.startswith("#"):
      pattern, reason = line.split("\t", 1)
      if not reason.strip():
        raise ValueError(f"not_on_aarch64.txt: {pattern} has no reason")
      patterns.append(pattern)
  return patterns


def FindMistakes(tests, build, exclusions):
  """Yields what is wrong with the lists: the text of the BUILD file, and that of the exclusions."""
  listed = set(_LABEL.findall(build))
  patterns = ParseExclusions(exclusions)
  for test in tests:
    is_excluded = any(fnmatch.fnmatchcase(test, pattern) for pattern in patterns)
    if test not in listed and not is_excluded:
      yield f"{test} is not in testing/aarch64/BUILD.bazel, and .ci/not_on_aarch64.txt has no reason"
    if test in listed and is_excluded:
      yield f"{test} is in testing/aarch64/BUILD.bazel and in .ci/not_on_aarch64.txt"
  for pattern in patterns:
    if not fnmatch.filter(tests, pattern):
      yield f"{pattern} of .ci/not_on_aarch64.txt fits no test"


def main(arguments):
  workspace = pathlib.Path(arguments[1] if len(arguments) > 1 else ".")
  build = (workspace / "testing/aarch64/BUILD.bazel").read_text(encoding="utf-8")
  exclusions = (workspace / ".ci/not_on_aarch64.txt").read_text(encoding="utf-8")
  mistakes = list(FindMistakes(TestsOf(sys.stdin.read()), build, exclusions))
  for mistake in mistakes:
    print(mistake)
  return 1 if mistakes else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv))
