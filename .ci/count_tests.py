# SPDX-License-Identifier: Apache-2.0
"""Counts test cases from Bazel's build events.

Usage: count_tests.py EVENTS_JSON BAZEL_EXIT_STATUS [PASSED_CHECKS [FAILED_CHECK ...]]

Prints what failed or was skipped, then "N passed, N failed, N skipped". A target that did not
build, or that failed without naming a test case, counts as one failure. A skipped case counts as
failed unless skips.txt lists it with a reason. Checks that ran beside the tests are given
by the number that passed and the names of those that failed. Exits with 1 if anything failed.
"""

import dataclasses
import fnmatch
import json
import pathlib
import sys
import urllib.parse
import urllib.request
from xml.etree import ElementTree


@dataclasses.dataclass
class Counts:
  passed: int = 0
  failed: list[str] = dataclasses.field(default_factory=list)
  skipped: list[str] = dataclasses.field(default_factory=list)


def CountCases(label, status, xml, counts):
  """Adds the cases of one test's report to `counts`.

  Args:
    label: the test's target.
    status: Bazel's verdict on the whole test, such as "PASSED".
    xml: the report in JUnit's format, or None if there is none.
    counts: what to add to.
  """
  passed, failed, skipped = 0, [], []
  for case in ElementTree.fromstring(xml).iter("testcase") if xml else []:
    name = f"{label} {case.get('classname', '')}.{case.get('name', '')}"
    if case.find("failure") is not None or case.find("error") is not None:
      failed.append(name)
    elif case.find("skipped") is not None or case.get("status") == "notrun":
      skipped.append(name)
    else:
      passed += 1
  if status not in ("PASSED", "FLAKY") and not failed:
    failed = [f"{label} ({status})"]
    passed = 0  # A report that does not show the failure is not to be trusted.
  elif not passed and not failed and not skipped:
    passed = 1
  counts.passed += passed
  counts.failed += failed
  counts.skipped += skipped


def LoadSkips(path):
  """Returns (pattern of a case, reason) for each rule of skips.txt."""
  rules = []
  for line in path.read_text(encoding="utf-8").splitlines():
    if line and not line.startswith("#"):
      pattern, reason = line.split("\t", 1)
      rules.append((pattern, reason))
  return rules


def CheckSkips(rules, counts):
  """Adds the reason to each skipped case of `counts`; a case without one becomes failed."""
  skipped = []
  for name in counts.skipped:
    reasons = [reason for pattern, reason in rules if fnmatch.fnmatchcase(name, pattern)]
    if reasons:
      skipped.append(f"{name}: {reasons[0]}")
    else:
      counts.failed.append(f"{name} (skipped, and not in .ci/skips.txt)")
  counts.skipped = skipped


def ReadFile(uri):
  path = pathlib.Path(urllib.request.url2pathname(urllib.parse.urlparse(uri).path))
  return path.read_text(encoding="utf-8", errors="replace") if path.exists() else None


def CountEvents(events, bazel_status):
  """Returns the Counts of a sequence of build events, each a dict."""
  results = {}  # (label, run, shard) -> (status, uri of the report or None) of the last attempt
  not_built = {}  # label -> why
  for event in events:
    event_id = event.get("id", {})
    if "testResult" in event_id and "testResult" in event:
      key, result = event_id["testResult"], event["testResult"]
      uris = [output.get("uri") for output in result.get("testActionOutput", [])
              if output.get("name") == "test.xml"]
      results[key["label"], key.get("run"), key.get("shard")] = (
          result.get("status", "NO_STATUS"), uris[0] if uris else None)
    elif "aborted" in event:
      (key,) = event_id.values()
      reason = event["aborted"].get("reason", "UNKNOWN")
      if reason != "SKIPPED" and "label" in key:
        not_built.setdefault(key["label"], reason)
    elif "targetCompleted" in event_id and not event.get("completed", {}).get("success"):
      not_built[event_id["targetCompleted"]["label"]] = "did not build"

  counts = Counts()
  for (label, _, _), (status, uri) in sorted(results.items(), key=str):
    CountCases(label, status, ReadFile(uri) if uri else None, counts)
  tested = {label for label, _, _ in results}
  counts.failed += [f"{label} ({why})" for label, why in sorted(not_built.items())
                    if label not in tested]
  if bazel_status and not counts.failed:
    counts.failed.append(f"bazel (exit status {bazel_status})")
  return counts


def main():
  events_path, bazel_status = pathlib.Path(sys.argv[1]), int(sys.argv[2])
  lines = events_path.read_text(encoding="utf-8").splitlines() if events_path.exists() else []
  events = []
  for line in lines:
    try:
      events.append(json.loads(line))
    except json.JSONDecodeError:
      break  # Bazel was stopped in the middle of a line.
  counts = CountEvents(events, bazel_status)
  CheckSkips(LoadSkips(pathlib.Path(__file__).with_name("skips.txt")), counts)
  counts.passed += int(sys.argv[3]) if len(sys.argv) > 3 else 0
  counts.failed += [f"check: {name}" for name in sys.argv[4:]]
  for verb, names in (("skipped", counts.skipped), ("FAILED", counts.failed)):
    for name in names:
      print(f"{verb}: {name}")
  print(f"{counts.passed} passed, {len(counts.failed)} failed, {len(counts.skipped)} skipped")
  sys.exit(1 if counts.failed else 0)


if __name__ == "__main__":
  main()
