# SPDX-License-Identifier: Apache-2.0
"""Checks that names in README.md and docs/ exist.

Usage: check_docs.py [WORKSPACE] < labels.txt

where labels.txt is the output of `./bazelw query //...`. Checked are names in backticks:

  //package:target    a target
  folder/file.h       a path in the workspace, with or without .h; or a program that the build makes
  Suite.TestName      a test in a *_test.cc of the project
  case:NAME           a case of the conformance suite

and those in testing/autograd/cases.txt, whose ids must be unique and whose rows must have tests or a reason.

Prints each name that does not exist with its document and line, and exits with 1 if there is one.
"""

import pathlib
import re
import sys

_CODE = re.compile(r"`([^`\s]+)`")
_LABEL = re.compile(r"^//[\w/.-]*(:[\w.-]+)?$")
_PATH = re.compile(r"^[\w.-]+(/[\w.-]+)+/?$")
_CASE = re.compile(r"^case:(\w+)$")
_TEST = re.compile(r"^([A-Z]\w+)\.([A-Z]\w+)$")
_DEFINITION = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\)", re.MULTILINE)
_MADE_BY_THE_BUILD = ("bazel-bin/", "bazel-out/")


def TestsOf(workspace):
  """Returns all tests, each as Suite.Name."""
  tests = set()
  for path in workspace.rglob("*_test.cc"):
    if not path.relative_to(workspace).parts[0].startswith("bazel-"):
      tests.update(f"{suite}.{name}" for suite, name in _DEFINITION.findall(path.read_text()))
  return tests


def CasesOf(workspace):
  """Returns names of conformance cases: all string literals in the files that have them."""
  cases = set()
  for path in (workspace / "testing/conformance").rglob("*.cc"):
    cases.update(re.findall(r'"(\w+)"', path.read_text()))
  return cases


def IsMissing(name, workspace, labels, tests, cases):
  if match := _CASE.match(name):
    return match[1] not in cases and match[1] != "NAME"
  if _LABEL.match(name):
    return name not in labels and not (workspace / name[2:]).is_dir()
  if _TEST.match(name):
    return name not in tests
  if not _PATH.match(name) or name.startswith(_MADE_BY_THE_BUILD):
    return False
  # A path of the project begins with one of its folders; NAME stands for any name.
  if not (workspace / name.split("/")[0]).is_dir() or "NAME" in name:
    return False
  program = "//" + ":".join(name.rsplit("/", 1))
  return not ((workspace / name).exists() or (workspace / f"{name}.h").exists() or program in labels)


def WrongRows(text, tests, cases):
  """Returns (line number, message) for each row of cases.txt that is not as its head says."""
  wrong = []
  ids = set()
  for number, line in enumerate(text.splitlines(), start=1):
    if not line or line.startswith("# "):
      continue
    fields = line.split("\t")
    if len(fields) not in (3, 4) or not all(fields):
      wrong.append((number, "expected id, title, tests and, where needed, a note"))
      continue
    if fields[0] in ids:
      wrong.append((number, f"the id {fields[0]} is there already"))
    ids.add(fields[0])
    if fields[2] == "-":
      if len(fields) != 4:
        wrong.append((number, f"{fields[0]} has neither a test nor a reason"))
      continue
    names = fields[2].split(", ")
    wrong += [(number, f"`{name}` does not exist") for name in names
              if not (name in tests or name.startswith("case:") and name[len("case:"):] in cases)]
  return wrong


def main():
  workspace = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
  labels = set(sys.stdin.read().split())
  tests = TestsOf(workspace)
  cases = CasesOf(workspace)
  missing = 0
  for path in [workspace / "README.md", *sorted((workspace / "docs").glob("*.md"))]:
    for number, line in enumerate(path.read_text().splitlines(), start=1):
      for name in _CODE.findall(line):
        if IsMissing(name, workspace, labels, tests, cases):
          print(f"{path.relative_to(workspace)}:{number}: `{name}` does not exist")
          missing += 1
  path = workspace / "testing/autograd/cases.txt"
  for number, message in WrongRows(path.read_text(), tests, cases):
    print(f"{path.relative_to(workspace)}:{number}: {message}")
    missing += 1
  sys.exit(1 if missing else 0)


if __name__ == "__main__":
  main()
