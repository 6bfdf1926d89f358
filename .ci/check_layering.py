# SPDX-License-Identifier: Apache-2.0
"""Checks that C++ targets include only headers of their direct dependencies.

Usage: check_layering.py [WORKSPACE] < rules.xml

where rules.xml is the output of

  bazel query --output=xml 'kind("cc_.*|proto_library|sh_test", //...)'

Prints each header of the project that a file includes though neither its own target nor a direct
dependency offers it, and exits with 1 if there is one. It takes seconds and needs no compiler;
`--config=clang` checks the same, and the headers of other projects, while it compiles.
"""

import dataclasses
import pathlib
import re
import sys
from xml.etree import ElementTree

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_SOURCES = (".h", ".cc", ".cu", ".inc")


@dataclasses.dataclass
class Target:
  kind: str
  srcs: list[str]
  hdrs: list[str]
  deps: list[str]


def PathOf(label):
  """Returns the file that a label of the project names, relative to the workspace."""
  package, name = label.removeprefix("//").split(":")
  return f"{package}/{name}" if package else name


def ParseTargets(xml):
  """Returns the targets by label, from the output of `bazel query --output=xml`."""
  targets = {}
  for rule in ElementTree.fromstring(xml).iter("rule"):
    lists = {
        entry.get("name"): [label.get("value") for label in entry.iter("label")]
        for entry in rule.iter("list")
    }
    targets[rule.get("name")] = Target(rule.get("class"), lists.get("srcs", []),
                                       lists.get("hdrs", []), lists.get("deps", []))
  return targets


def OfferedHeaders(label, targets):
  """Returns the headers that dependents of `label` may include."""
  target = targets.get(label)
  if target is None:
    return set()
  if target.kind == "cc_proto_library":
    protos = [src for dep in target.deps if dep in targets for src in targets[dep].srcs]
    return {PathOf(proto).removesuffix(".proto") + ".pb.h" for proto in protos}
  return {PathOf(header) for header in target.hdrs}


def Includes(path):
  return _INCLUDE.findall(path.read_text(encoding="utf-8"))


def FindViolations(targets, workspace):
  """Yields (file, header, target): `file` of `target` may not include `header`."""
  offered = {label: OfferedHeaders(label, targets) for label in targets}
  project = set().union(*offered.values()) if offered else set()
  for target in targets.values():
    project.update(PathOf(label) for label in target.srcs if label.endswith(".h"))
  for label, target in sorted(targets.items()):
    own = [PathOf(file) for file in target.srcs + target.hdrs if file.endswith(_SOURCES)]
    allowed = set(own).union(*(offered.get(dep, set()) for dep in target.deps))
    for file in sorted(set(own)):
      if not (workspace / file).exists():  # generated
        continue
      for header in Includes(workspace / file):
        if header in project and header not in allowed:
          yield file, header, label


def main(arguments):
  workspace = pathlib.Path(arguments[1] if len(arguments) > 1 else ".")
  violations = list(FindViolations(ParseTargets(sys.stdin.read()), workspace))
  for file, header, label in violations:
    print(f"{file}: includes {header}, which no direct dependency of {label} offers")
  return 1 if violations else 0


if __name__ == "__main__":
  sys.exit(main(sys.argv))
