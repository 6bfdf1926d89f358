#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails each system call of loading, training and saving in turn, by strace's fault injection.

usage: io_fault_test.py TRAIN_AND_SAVE PROGRAM [--every]

The process ends with 0, or with 1 and an error; never by a signal. Afterwards the checkpoint is the old or the new one,
byte by byte, and no other file is left that a further save does not remove. Calls before main() and the exit are those
of the dynamic linker and are skipped. A kind of call on these files that is not known here fails the test. Without
--every, at most 25 calls of each kind fail, from the first to the last.
"""

import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys

# System calls and the errors that they may return when disks and memory are full, broken or forbidden. None: brk()
# fails by returning another address.
_FAULTS = {
    "openat": ["EACCES", "EMFILE", "EIO", "ENOSPC"],
    "newfstatat": ["EIO"],
    "fstat": ["EIO"],
    "mmap": ["ENOMEM"],
    "mprotect": ["ENOMEM"],
    "munmap": ["ENOMEM"],
    "brk": [None],
    "read": ["EIO"],
    "pread64": ["EIO"],
    "write": ["ENOSPC", "EIO", "EDQUOT"],
    "writev": ["ENOSPC", "EIO"],
    "fsync": ["EIO"],
    "fdatasync": ["EIO"],
    "close": ["EIO"],
    "flock": ["ENOLCK"],
    "rename": ["EACCES", "EIO"],
    "unlink": ["EACCES"],
    "ftruncate": ["EFBIG"],
    "getdents64": ["EIO"],
    "madvise": ["EINVAL"],
    "clone3": ["EAGAIN"],
}
# System calls on the artifact or in the folder of the checkpoint that are not made to fail: train_and_save asks by
# access() whether there is a checkpoint.
_HARMLESS = {"access"}
_MOST_CALLS = 25


class Sweep:

  def __init__(self, program, artifact, folder):
    self._program, self._artifact, self._folder = program, artifact, folder
    self._checkpoint = folder / "states.safetensors"
    self._paths = (artifact, os.path.realpath(artifact), str(folder))
    self._strace = shutil.which("strace")
    self.failures = []
    self.errors = collections.Counter()
    subprocess.run(self._command(), check=True)
    self._old = self._checkpoint.read_bytes()
    subprocess.run(self._command(), check=True)
    self._new = self._checkpoint.read_bytes()
    assert self._old != self._new, "a step changes states"

  def _command(self):
    return [self._program, self._artifact, str(self._checkpoint)]

  def _reset(self):
    for path in self._folder.iterdir():
      path.unlink()
    self._checkpoint.write_bytes(self._old)

  def calls(self):
    """Returns how often each system call occurs before and after the artifact is opened, and those on the files."""
    self._reset()
    # -y: with the paths of descriptors.
    trace = subprocess.run([self._strace, "-f", "-y", *self._command()], check=True, capture_output=True,
                           text=True).stderr
    before, after = collections.Counter(), collections.Counter()
    counted, on_files = before, set()
    for line in trace.splitlines():
      name = re.match(r"(?:\[pid +\d+\] )?(\w+)\(", line)
      if name is None:
        continue
      if self._artifact in line and name.group(1) == "openat":
        counted = after
      counted[name.group(1)] += 1
      if counted is after and any(path in line for path in self._paths):
        on_files.add(name.group(1))
    return before, after, on_files

  def fail(self, call, error, number):
    self._reset()
    inject = f"{call}:{'retval=0' if error is None else f'error={error}'}:when={number}"
    done = subprocess.run([self._strace, "-f", "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={inject}",
                           *self._command()], capture_output=True, text=True, timeout=60)
    self.errors[done.returncode] += 1
    if done.returncode not in (0, 1) or (done.returncode == 1 and "error: " not in done.stderr):
      self.failures.append(f"{inject}: status {done.returncode}: {done.stderr.strip()[-300:]}")
    now = self._checkpoint.read_bytes() if self._checkpoint.exists() else None
    if now not in (self._old, self._new) or (done.returncode == 0 and now != self._new):
      self.failures.append(f"{inject}: status {done.returncode}, the checkpoint is neither old nor new")
    subprocess.run(self._command(), check=True)
    if [path.name for path in self._folder.iterdir()] != [self._checkpoint.name]:
      self.failures.append(f"{inject}: files are left: {sorted(p.name for p in self._folder.iterdir())}")


def skip(reason):
  """Writes the report of a skipped test, which Bazel reports as passed."""
  print("skipped:", reason)
  pathlib.Path(os.environ["XML_OUTPUT_FILE"]).write_text(
      '<testsuites><testsuite name="io_fault_test" tests="1" skipped="1"><testcase name="io_fault_test">'
      f'<skipped message="{reason}"/></testcase></testsuite></testsuites>\n')


def main():
  if shutil.which("strace") is None:
    sys.exit("strace is missing. Run ./bazelw, which installs it, or: apt-get install strace")
  if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode != 0:
    return skip("the system does not allow ptrace")
  folder = pathlib.Path(os.environ["TEST_TMPDIR"]).resolve() / "states"
  folder.mkdir()
  sweep = Sweep(sys.argv[1], sys.argv[2], folder)
  most = 10**9 if "--every" in sys.argv else _MOST_CALLS
  before, after, on_files = sweep.calls()
  assert on_files >= {"openat", "mmap", "write", "fsync", "rename", "close"}, f"calls on the files: {sorted(on_files)}"
  unknown = on_files - _FAULTS.keys() - _HARMLESS
  assert not unknown, f"add {sorted(unknown)} to _FAULTS with the errors of these calls, or to _HARMLESS"
  runs = 0
  for call, errors in _FAULTS.items():
    count = after[call]
    chosen = range(1, count + 1) if count <= most else sorted({1 + i * (count - 1) // (most - 1) for i in range(most)})
    for number in chosen:
      for error in errors:
        sweep.fail(call, error, before[call] + number)
        runs += 1
  print(f"{runs} faults in {sum(after[call] for call in _FAULTS)} calls; exits by status: {dict(sweep.errors)}")
  for failure in sweep.failures:
    print("FAILED:", failure)
  assert runs > 50 and sweep.errors[1] > 10, "faults were injected"
  sys.exit(1 if sweep.failures else 0)


if __name__ == "__main__":
  main()
