# SPDX-License-Identifier: Apache-2.0
"""Checks what the public headers of the runtime include.

Usage: check_public_headers.py [WORKSPACE]

public_headers.txt lists the headers of the project that a user of the runtime compiles: the public
ones and all that they include, directly or not. Prints each included header that is not in the
list, with the path to it, and each line of the list that is not included any more; exits with 1 if
there is one. Add a header to the list only if users need it.
"""

import pathlib
import re
import sys

PUBLIC = ("runtime/function.h", "runtime/session.h", "runtime/tensor.h")
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def Included(roots, read):
  """Returns {header: path from a root to it} of the project's headers that `roots` include.

  `read` returns the text of a header; None if it does not belong to the project.
  """
  paths = {}
  pending = [(root, [root]) for root in reversed(roots)]
  while pending:
    header, path = pending.pop()
    text = None if header in paths else read(header)
    if text is None:
      continue
    paths[header] = path
    pending += [(included, path + [included]) for included in _INCLUDE.findall(text)]
  return paths


def Differences(included, allowed):
  """Yields a line for each header that is in only one of `included` and `allowed`."""
  for header in sorted(included.keys() - allowed):
    yield f"not in .ci/public_headers.txt: {' -> '.join(included[header])}"
  for header in sorted(allowed - included.keys()):
    yield f"in .ci/public_headers.txt, but no public header includes it: {header}"


def main(arguments):
  workspace = pathlib.Path(arguments[1] if len(arguments) > 1 else ".")

  def Read(header):
    path = workspace / header
    if header.endswith(".pb.h"):  # generated
      return "" if (workspace / header.replace(".pb.h", ".proto")).exists() else None
    return path.read_text(encoding="utf-8") if path.is_file() else None

  lines = (workspace / ".ci/public_headers.txt").read_text(encoding="utf-8").split("\n")
  allowed = {line for line in lines if line and not line.startswith("#")}
  differences = list(Differences(Included(PUBLIC, Read), allowed))
  print("\n".join(differences), end="\n" if differences else "")
  return 1 if differences else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv))
