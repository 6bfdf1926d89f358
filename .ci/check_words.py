# SPDX-License-Identifier: Apache-2.0
"""Checks the language of comments, string literals and documents.

Usage: check_words.py [FILE ...]

Without files it reads all that git tracks. It prints, with file and line:

  - words of words.txt, with the advice beside them;
  - `The same.` as a whole docstring;
  - a docstring of a header that begins with a relative clause ("What", "Whose", "Whether", ...)
    where a verb belongs ("Returns", "Whether" -> "Returns whether");
  - comments that are wrapped twice: a line that ends early in the middle of a sentence.

It exits with 1 if there is one. A line of a Markdown document inside a code block is not read.
"""

import pathlib
import re
import subprocess
import sys

_SOURCES = (".h", ".cc", ".proto", ".bazel", ".bzl", ".py", ".sh")
_EXEMPT = (".ci/words.txt", ".ci/check_words.py", ".ci/check_words_test.py", "docs/glossary.md", "LICENSE")
_COMMENT = re.compile(r"^(\s*)(//|#)\s?(.*)$")
_TRAILING = re.compile(r"\s(?://|#) (.*)$")
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
_HEADLESS = re.compile(r"(What|Whose|Of|That|Where|Whether|Who|Whatever) ")
_EARLY = 24  # Columns that a wrapped line may leave free besides the next word.


def LoadRules(path):
  """Returns (compiled regular expression, advice) for each rule of words.txt."""
  rules = []
  for line in path.read_text(encoding="utf-8").splitlines():
    if line and not line.startswith("#"):
      pattern, advice = line.split("\t", 1)
      rules.append((re.compile(pattern, re.IGNORECASE), advice))
  return rules


def Texts(path, lines):
  """Yields (line number, text) of what a person reads: comments, strings, prose."""
  in_code = False
  for number, line in enumerate(lines, start=1):
    if path.suffix == ".md":
      if line.lstrip().startswith("```"):
        in_code = not in_code
      elif not in_code:
        yield number, re.sub(r"`[^`]*`", "", line)
      continue
    if match := _COMMENT.match(line):
      yield number, re.sub(r"`[^`]*`", "", match[3])
      continue
    for string in _STRING.findall(line):
      if " " in string:
        yield number, string
    if match := _TRAILING.search(line):
      yield number, re.sub(r"`[^`]*`", "", match[1])


def Blocks(lines):
  """Yields (first line number, [(indent, text), ...]) of each block of whole-line // comments."""
  block, start = [], 0
  for number, line in enumerate([*lines, ""], start=1):
    match = re.match(r"^(\s*)//(?!/)\s?(.*)$", line)
    if match:
      if not block:
        start = number
      block.append((match[1], match[2]))
    elif block:
      yield start, block
      block = []


def IsWrappedTwice(indent, line, following, width):
  """Returns whether `line` ends early although the first word of `following` continues its sentence."""
  if not line or not following or line.startswith((" ", "-", "*")) or following.startswith((" ", "-", "*")):
    return False
  if line.rstrip().endswith((".", ":", ";", "?", "!", ",")) or not following[0].islower():
    return False
  used = len(indent) + 3 + len(line) + 1 + len(following.split(" ")[0])
  return used + _EARLY < width


def Problems(path, text, rules):
  """Yields (line number, message)."""
  lines = text.splitlines()
  for number, prose in Texts(path, lines):
    for pattern, advice in rules:
      if match := pattern.search(prose):
        yield number, f"'{match[0]}': {advice}"
  if path.suffix not in (".h", ".cc"):
    return
  for start, block in Blocks(lines):
    if [line for _, line in block] == ["The same."]:
      yield start, "'The same.' as a docstring: name what differs from the sibling"
    if path.suffix == ".h" and start > 1 and _HEADLESS.match(block[0][1]):
      yield start, f"'{block[0][1].split()[0]} ...': begin with a verb in the third person, or with a noun"
    width = max(len(indent) + 3 + len(line) for indent, line in block)
    for i in range(len(block) - 1):
      if IsWrappedTwice(*block[i], block[i + 1][1], width):
        yield start + i, "wrapped twice: fill the line"


def TrackedFiles():
  names = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True).stdout.split("\n")
  return [name for name in names if name.endswith((*_SOURCES, ".md")) and "third_party/" not in name]


def main(arguments):
  rules = LoadRules(pathlib.Path(__file__).parent / "words.txt")
  found = 0
  for name in arguments[1:] or TrackedFiles():
    path = pathlib.Path(name)
    if name in _EXEMPT or not path.is_file():
      continue
    for number, message in Problems(path, path.read_text(encoding="utf-8"), rules):
      print(f"{name}:{number}: {message}")
      found += 1
  return 1 if found else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv))
