# SPDX-License-Identifier: Apache-2.0
"""Runs `cotan diff`, `bench --trace`, `inspect --html` and `reduce` on compiled models and checks what they write.

usage: tools_test.py COTAN DIGITS OTHER [--browser]
With --browser, only looks at pages in headless Chromium.
"""

import html.parser
import json
import os
import re
import struct
import subprocess
import sys
import unittest
import zlib

COTAN, DIGITS, OTHER = (os.path.abspath(path) for path in sys.argv[1:4])
IN_BROWSER = "--browser" in sys.argv
FOLDER = os.environ["TEST_TMPDIR"]
VOID_ELEMENTS = {"meta", "link", "input"}


def cotan(*arguments, status=0):
  done = subprocess.run([COTAN, *arguments], capture_output=True, text=True, check=False)
  assert done.returncode == status, f"{arguments}: status {done.returncode}\n{done.stdout}\n{done.stderr}"
  return done.stdout


def path_of(name):
  return os.path.join(FOLDER, name)


def read(path):
  with open(path, encoding="utf-8") as file:
    return file.read()


def num_ops(path, method):
  text = cotan("inspect", path)
  return int(re.search(rf"^{method}\(.*\n  ops: (\d+)", text, re.MULTILINE).group(1))


class PageParser(html.parser.HTMLParser):
  """Checks that elements are closed in order, and collects scripts and addresses."""

  def __init__(self):
    super().__init__()
    self.open = []
    self.scripts = []
    self.addresses = []

  def handle_starttag(self, tag, attributes):
    if tag not in VOID_ELEMENTS:
      self.open.append(tag)
    if tag == "script":
      self.scripts.append("")
    self.addresses += [value for name, value in attributes if name in ("src", "href")]

  def handle_startendtag(self, tag, attributes):
    pass  # <path/>

  def handle_endtag(self, tag):
    assert self.open.pop() == tag, f"</{tag}> closes another element"

  def handle_data(self, data):
    if self.open and self.open[-1] == "script":
      self.scripts[-1] += data


class DiffTest(unittest.TestCase):

  def test_an_artifact_equals_itself(self):
    self.assertEqual(cotan("diff", DIGITS, DIGITS), "")

  def test_different_models_differ_in_every_section(self):
    text = cotan("diff", DIGITS, OTHER, status=1)
    for expected in ("\n  - parameter conv1.weight f32[16,1,3,3], bytes with CRC-32C ", "\nmethod train_step\n  signature\n",
                     "\n  ops\n", "\n    - op ", "\n    + op ", "\n  plan\n    - ", "\n  ViewAndMutationMeta\n", "recorded runs\n"):
      self.assertIn(expected, text)

  def test_a_missing_file_is_an_error(self):
    cotan("diff", DIGITS, path_of("missing.cotan"), status=2)


class TraceTest(unittest.TestCase):

  def test_steps_follow_one_another_inside_their_call(self):
    cotan("bench", DIGITS, "--method=train_step", "--steps=2", f"--trace={path_of('trace.json')}")
    events = json.loads(read(path_of("trace.json")))["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    calls = [event for event in slices if event["name"] == "train_step"]
    self.assertEqual(len(calls), 3)
    steps = [event for event in slices if "op" in event["args"]]
    self.assertEqual(len(calls) + len(steps), len(slices))
    self.assertEqual(len(steps), sum(call["args"]["steps"] for call in calls))
    remaining = iter(steps)
    end = 0
    for call in calls:
      self.assertGreaterEqual(call["ts"], end - 0.01)
      end = call["ts"]
      for index in range(call["args"]["steps"]):
        step = next(remaining)
        self.assertEqual(step["args"]["step"], index)
        self.assertEqual((step["pid"], step["tid"]), (call["pid"], call["tid"]))
        self.assertAlmostEqual(step["ts"], end, delta=0.01)
        self.assertGreater(step["args"]["bytes"], 0)
        end = step["ts"] + step["dur"]
      self.assertLessEqual(end, call["ts"] + call["dur"] + 0.01)
    self.assertTrue(any(step["args"]["flops"] > 0 for step in steps))
    counters = [event["ts"] for event in events if event["ph"] == "C"]
    self.assertEqual(counters, sorted(counters))


def write_page(name, artifact=None):
  profile = path_of(name + ".profile")
  if artifact is None:
    cotan("bench", DIGITS, "--steps=2", f"--profile={profile}")
    cotan("inspect", DIGITS, f"--html={path_of(name)}", f"--profile={profile}")
  else:
    cotan("inspect", artifact, f"--html={path_of(name)}")
  return path_of(name)


class PageTest(unittest.TestCase):

  def test_the_page_is_well_formed_and_has_every_op_once(self):
    parser = PageParser()
    parser.feed(read(write_page("page.html")))
    parser.close()
    self.assertEqual(parser.open, [])
    self.assertEqual(parser.addresses, ["data:,"])
    data = json.loads(parser.scripts[0])
    self.assertEqual([method["name"] for method in data["methods"]], ["train_step", "eval"])
    for method in data["methods"]:
      ops = [row["number"] for row in method["rows"] if row["class"] == "op"]
      self.assertEqual(ops, list(range(num_ops(DIGITS, method["name"]))))
      for edge in method["edges"]:
        self.assertLess(edge["from"], edge["to"])
        self.assertLess(edge["to"], len(method["rows"]))
      self.assert_buffers_are_disjoint(method["plan"])
    train = data["methods"][0]
    self.assertTrue(all(step["us"] >= 0 for step in train["plan"]["steps"]))
    self.assertEqual({edge["kind"] for edge in train["edges"]}, {"data", "view", "mutation"})
    self.assertEqual(len(data["states"]), 43)

  def assert_buffers_are_disjoint(self, plan):
    for i, (offset, size, first, last) in enumerate(plan["buffers"]):
      self.assertLessEqual(offset + size, plan["arena"])
      for other_offset, other_size, other_first, other_last in plan["buffers"][:i]:
        apart = last < other_first or other_last < first
        self.assertTrue(apart or offset + size <= other_offset or other_offset + other_size <= offset)

  def test_a_profile_of_another_artifact_is_refused(self):
    cotan("bench", OTHER, "--method=train_step", "--steps=1", f"--profile={path_of('other.profile')}")
    cotan("inspect", DIGITS, f"--html={path_of('refused.html')}", f"--profile={path_of('other.profile')}", status=1)
    self.assertFalse(os.path.exists(path_of("refused.html")))


def has_kind(kind):
  """Returns a command that fails while the artifact has an op of this kind."""
  return ["sh", "-c", f"! '{COTAN}' inspect --program {{}} | grep -q ' = {kind}('"]


class ReduceTest(unittest.TestCase):

  def test_only_the_failing_op_remains(self):
    for kind in ("max_pool_backward", "matmul"):
      small = path_of(kind + ".cotan")
      text = cotan("reduce", DIGITS, f"--out={small}", "--method=train_step", "--", *has_kind(kind))
      self.assertRegex(text, r": [1-3] ops, ")
      self.assertLess(num_ops(small, "train_step"), 4)
      self.assertIn(f" = {kind}(", cotan("inspect", "--program", small))
      self.assertFalse(os.path.exists(small + ".candidate"))

  def test_the_reduced_program_runs(self):
    small = path_of("runs.cotan")
    cotan("reduce", DIGITS, f"--out={small}", "--method=eval", "--", *has_kind("convolution"))
    self.assertIn("eval, call 1", cotan("run", small, "--method=eval"))

  def test_a_command_that_succeeds_is_refused(self):
    cotan("reduce", DIGITS, f"--out={path_of('none.cotan')}", "--", "true", status=1)
    self.assertFalse(os.path.exists(path_of("none.cotan")))


def chromium(*arguments):
  profile = path_of("chromium")
  command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}",
             "--enable-logging=stderr", "--window-size=1400,2300", *arguments]
  return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120,
                        env={**os.environ, "HOME": FOLDER})


def png_colors(path):
  """Returns the number of distinct pixel rows of a PNG file, after decompression."""
  with open(path, "rb") as file:
    content = file.read()
  width, height, depth, color = struct.unpack(">IIBB", content[16:26])
  compressed, at = b"", 8
  while at < len(content):
    size, kind = struct.unpack(">I4s", content[at:at + 8])
    compressed += content[at + 8:at + 8 + size] if kind == b"IDAT" else b""
    at += size + 12
  pixels = zlib.decompress(compressed)
  row = len(pixels) // height
  assert depth == 8 and color in (2, 6) and row > width
  return len({pixels[i:i + row] for i in range(0, len(pixels), row)})


def first_method(page):
  """Returns the data of the method that the page shows first."""
  return json.loads(re.search(r'id="data">(.*?)</script>', read(page), re.DOTALL).group(1))["methods"][0]


class BrowserTest(unittest.TestCase):

  def document(self, page):
    """Returns the page as HTML after its scripts have run."""
    done = chromium("--dump-dom", "file://" + page)
    self.assertNotIn("CONSOLE", done.stderr)
    return done.stdout

  def document_after(self, page, script):
    """Returns the page as HTML after its own scripts and then `script` have run."""
    changed = page + ".script.html"
    with open(changed, "w", encoding="utf-8") as file:
      file.write(read(page).replace("</body>", f"<script>{script}</script></body>"))
    return self.document(changed)

  def assert_page_draws(self, page, ops):
    done = chromium(f"--screenshot={page}.png", "file://" + page)
    self.assertNotIn("CONSOLE", done.stderr)
    self.assertGreater(png_colors(page + ".png"), 300)
    document = self.document(page)
    self.assertEqual([int(op) for op in re.findall(r' data-op="(\d+)"', document)], list(range(ops)))
    return document

  def test_the_page_draws_every_op_and_buffer_without_messages(self):
    page = write_page("drawn.html")
    document = self.assert_page_draws(page, num_ops(DIGITS, "train_step"))
    plan = first_method(page)["plan"]
    self.assertEqual(document.count('class="buffer"'), len(plan["buffers"]))
    self.assertEqual(document.count("data-step="), len(plan["steps"]))

  def test_memory_over_time_and_times_of_steps_are_drawn(self):
    page = write_page("memory.html")
    plan = first_method(page)["plan"]
    document = self.document(page)
    chart = re.search(r'<svg [^>]*id="chart">(.*?)</svg>', document, re.DOTALL).group(1)
    lifetimes = re.findall(r"<title>[^<]* at (\d+), steps (\d+) to (\d+)</title>", chart)
    self.assertEqual([tuple(map(int, lifetime)) for lifetime in lifetimes],
                     [(offset, first, last) for offset, _, first, last in plan["buffers"]])
    live = re.findall(r' d="([^"]*)"', chart)[-1]
    heights = [float(y) for y in re.findall(r"[ML][\d.]+ ([\d.]+)H", live)]
    self.assertEqual(len(heights), len(plan["live"]))
    # Each byte has the same height, and the y axis points down.
    highest, lowest = max(plan["live"]), min(plan["live"])
    self.assertEqual(heights.index(min(heights)), plan["live"].index(highest))
    scale = (max(heights) - min(heights)) / (highest - lowest)
    for height, bytes_alive in zip(heights, plan["live"]):
      self.assertAlmostEqual(max(heights) - height, scale * (bytes_alive - lowest), places=3)
    times = re.findall(r'<td class="us" title="([\d.]+)">', document)
    self.assertEqual(len(times), len(plan["steps"]))
    for step, time in zip(plan["steps"], times):
      self.assertAlmostEqual(float(time), step["us"], delta=0.051)

  def test_values_views_aliases_and_mutations_are_drawn(self):
    page = write_page("edges.html")
    # The model has no result that aliases an argument: a view becomes one.
    text = read(page)
    self.assertIn('"kind": "view", "label"', text)
    with open(page, "w", encoding="utf-8") as file:
      file.write(text.replace('"kind": "view", "label"', '"kind": "alias", "label"', 1))
    edges = [(edge["kind"], edge["from"], edge["to"]) for edge in first_method(page)["edges"]]
    self.assertLessEqual({"alias", "data", "mutation"}, {kind for kind, _, _ in edges})
    drawn = re.findall(r'<path class="edge (\w+)" data-from="(\d+)" data-to="(\d+)"', self.document(page))
    self.assertEqual([(kind, int(source), int(target)) for kind, source, target in drawn], edges)

  def test_the_search_marks_the_rows_that_have_the_text(self):
    page = write_page("searched.html")
    keys = ("kind", "type", "source", "text")
    found = [i for i, row in enumerate(first_method(page)["rows"])
             if any("max_pool" in text.lower() for text in [*(row[key] for key in keys), ".".join(row["module"])])]
    self.assertGreater(len(found), 1)
    search = """
        document.getElementById('search').value = ' MAX_Pool ';
        document.getElementById('search').dispatchEvent(new Event('input'));"""
    document = self.document_after(page, search)
    rows = re.findall(r'<g class="row ([^"]*)" data-row="(\d+)"', document)
    self.assertEqual([int(row) for classes, row in rows if "hit" in classes.split()], found)
    self.assertIn(f">1 of {len(found)}</span>", document)
    document = self.document_after(page, search + "document.getElementById('next').click();")
    self.assertIn(f">2 of {len(found)}</span>", document)

  def test_the_buttons_change_the_scale_of_the_graph(self):
    page = write_page("zoomed.html")
    for buttons, scale in ((["larger"], 1.25), (["smaller"], 0.8), (["larger", "larger", "fit"], 1)):
      script = "".join(f"document.getElementById('{button}').click();" for button in buttons)
      sizes = re.search(r'id="graph"><svg viewBox="0 0 ([\d.]+) ([\d.]+)" width="([\d.]+)" height="([\d.]+)"',
                        self.document_after(page, script))
      width, height, drawn_width, drawn_height = map(float, sizes.groups())
      self.assertAlmostEqual(drawn_width, scale * width, places=3)
      self.assertAlmostEqual(drawn_height, scale * height, places=3)

  def test_each_step_of_a_profile_has_its_bound(self):
    page = write_page("bounds.html")
    steps = first_method(page)["plan"]["steps"]
    rates = {key: max(step[key] / step["us"] for step in steps if step["us"] > 0) for key in ("bytes", "flops")}
    shown = re.findall(r'<td class="bound" title="[\d.]+">([\d.]+)</td>', self.document(page))
    self.assertEqual(len(shown), len(steps))
    for step, bound in zip(steps, shown):
      # Rounded to two digits.
      self.assertAlmostEqual(float(bound), max(step[key] / rate for key, rate in rates.items()), delta=0.006)
    self.assertGreater(max(map(float, shown)), 0)

  def test_hostile_names_stay_text(self):
    page = write_page("hostile.html")
    hostile = '</script><img src=x onerror="console.log(1)"><b>'
    escaped = json.dumps(hostile).replace("<", "\\u003c").replace(">", "\\u003e")
    text = read(page).replace('"source": "aten.convolution.default conv1"', f'"source": {escaped}')
    with open(page, "w", encoding="utf-8") as file:
      file.write(text.replace('"name": "conv1.weight"', f'"name": {escaped}'))
    document = self.assert_page_draws(page, num_ops(DIGITS, "train_step"))
    self.assertNotIn("<img", document)
    self.assertIn("&lt;img src=x", document)


if __name__ == "__main__":
  suite = unittest.TestSuite()
  for case in [BrowserTest] if IN_BROWSER else [DiffTest, TraceTest, PageTest, ReduceTest]:
    suite.addTests(unittest.defaultTestLoader.loadTestsFromTestCase(case))
  sys.exit(0 if unittest.TextTestRunner(verbosity=2).run(suite).wasSuccessful() else 1)
