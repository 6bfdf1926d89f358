# SPDX-License-Identifier: Apache-2.0
"""Checks that no folders include each other in a circle.

Usage: check_circles.py [WORKSPACE]

An edge A -> B means that a production file in folder A includes a header, or imports a schema, of
folder B. Tests and helpers of tests (`*_test.cc`, `testonly` folders) may include what is above
them. Prints each circle with the includes that make it, and exits with 1 if there is one.
"""

import collections
import pathlib
import re
import subprocess
import sys

_INCLUDE = re.compile(r'^\s*(?:#\s*include|import)\s+"([^"]+)"', re.MULTILINE)
_SOURCES = (".h", ".cc", ".cu", ".inc", ".proto")


def IsTest(path):
  parts = pathlib.PurePath(path).parts
  return "testing" in parts[:-1] or re.search(r"(_test|_bench|test_\w*|_testutil)\.\w+$", parts[-1]) is not None


def FolderGraph(files, read):
  """Returns {(folder, folder): [(file, header)]} of the production files among `files`."""
  known = set(files)
  edges = collections.defaultdict(list)
  for file in files:
    if IsTest(file):
      continue
    for header in _INCLUDE.findall(read(file)):
      target = header.removesuffix(".pb.h") + ".proto" if header.endswith(".pb.h") else header
      source_folder, target_folder = str(pathlib.PurePath(file).parent), str(pathlib.PurePath(target).parent)
      if target in known and source_folder != target_folder:
        edges[source_folder, target_folder].append((file, header))
  return edges


def Circles(edges):
  """Returns the strongly connected sets of two or more folders, each sorted (Tarjan's algorithm)."""
  following = collections.defaultdict(list)
  for source, target in edges:
    following[source].append(target)
  index, low, stack, circles = {}, {}, [], []

  def Visit(node):
    index[node] = low[node] = len(index)
    stack.append(node)
    for target in following[node]:
      if target not in index:
        Visit(target)
        low[node] = min(low[node], low[target])
      elif target in stack:
        low[node] = min(low[node], index[target])
    if low[node] == index[node]:
      circle = []
      while not circle or circle[-1] != node:
        circle.append(stack.pop())
      if len(circle) > 1:
        circles.append(sorted(circle))

  for node in sorted({folder for edge in edges for folder in edge}):
    if node not in index:
      Visit(node)
  return circles


def main(arguments):
  workspace = pathlib.Path(arguments[1] if len(arguments) > 1 else ".")
  names = subprocess.run(["git", "-C", str(workspace), "ls-files"], capture_output=True, text=True, check=True).stdout
  files = [name for name in names.split("\n") if name.endswith(_SOURCES) and (workspace / name).is_file()]
  edges = FolderGraph(files, lambda file: (workspace / file).read_text(encoding="utf-8", errors="replace"))
  circles = Circles(edges)
  for circle in circles:
    print("folders include each other in a circle: " + ", ".join(circle))
    for (source, target), includes in sorted(edges.items()):
      if source in circle and target in circle:
        print(f"  {source} -> {target}: " + ", ".join(f"{file} includes {header}" for file, header in includes[:3]))
  return 1 if circles else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv))
