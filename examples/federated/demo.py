# SPDX-License-Identifier: Apache-2.0
"""Runs the federation on loopback: a SuperLink, a SuperNode for each device, and one run of the app.

Each device is a process of its own with a part of the images. Prints the accuracy after each round. Flower's programs
are found by PATH; run.sh installs them.
"""

import argparse
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time


def _free_ports(count):
  """Returns ports of the loopback interface that are free now."""
  sockets = [socket.socket() for _ in range(count)]
  try:
    for each in sockets:
      each.bind(("127.0.0.1", 0))
    return [each.getsockname()[1] for each in sockets]
  finally:
    for each in sockets:
      each.close()


class Federation:
  """The processes of a federation; leaving the `with` block ends them."""

  def __init__(self, options):
    self._options = options
    self._folder = pathlib.Path(tempfile.mkdtemp(prefix="federation_"))
    self._processes = []
    self._ports = _free_ports(1 + options.devices)
    self._environment = dict(os.environ, FLWR_HOME=str(self._folder / "flwr"), FLWR_TELEMETRY_ENABLED="0",
                             PYTHONUNBUFFERED="1")

  def __enter__(self):
    try:
      self._start_superlink()
    except BaseException:  # then there is no call of __exit__()
      self.__exit__()
      raise
    return self

  def __exit__(self, *_):
    for _, process in self._processes:
      self._end(process, signal.SIGTERM)
    shutil.rmtree(self._folder, ignore_errors=True)

  @property
  def address(self):
    return f"127.0.0.1:{self._ports[0]}"

  def add_device(self, part, program):
    options = self._options
    config = f'partition-id={part} num-partitions={options.devices} program="{program}" data="{options.data}"'
    return self._start(f"device {part}", "flower-supernode", "--insecure", f"--superlink={self.address}",
                       f"--port={self._ports[1 + part]}", f"--node-config={config}")

  def kill(self, process):
    """Ends a device at once, as a loss of power does."""
    self._end(process, signal.SIGKILL)

  def run(self, on_line):
    """Runs the app, calls `on_line` for each line that the server prints, and returns the exit status of `flwr run`."""
    options = self._options
    config = " ".join([
        f'program="{options.program}"', f'data="{options.data}"', f"rounds={options.rounds}",
        f'strategy="{options.strategy}"', f"fraction={options.fraction}", f"devices={options.devices}",
        f"round-timeout={options.round_timeout}", f"clip={options.clip}", f"noise={options.noise}",
        f"secure={str(options.secure).lower()}"
    ])
    app = pathlib.Path(__file__).resolve().parent / "app"
    process = subprocess.Popen(
        ["flwr", "run", str(app), "loopback", f"--run-config={config}", "--stream"],
        env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in process.stdout:
      on_line(line.rstrip())
    return process.wait()

  def log_of(self, name):
    return (self._folder / f"{name}.txt").read_text(errors="replace")

  def _start_superlink(self):
    home = self._folder / "flwr"
    home.mkdir()
    (home / "config.toml").write_text(
        f'[superlink]\ndefault = "loopback"\n\n[superlink.loopback]\naddress = "{self.address}"\ninsecure = true\n')
    superlink = self._start("superlink", "flower-superlink", "--insecure", f"--port={self._ports[0]}",
                            "--disable-runtime-dependency-installation")
    self._wait_for_superlink(superlink)

  def _start(self, name, program, *arguments):
    with open(self._folder / f"{name}.txt", "w") as log:
      process = subprocess.Popen([program, *arguments], env=self._environment, stdout=log,
                                 stderr=subprocess.STDOUT, start_new_session=True)
    self._processes.append((name, process))
    return process

  def _wait_for_superlink(self, process):
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
      with socket.socket() as each:
        if each.connect_ex(("127.0.0.1", self._ports[0])) == 0:
          return
      if process.poll() is not None:
        raise RuntimeError(f"the SuperLink ended with status {process.returncode}:\n{self.log_of('superlink')}")
      time.sleep(0.2)
    raise TimeoutError(f"the SuperLink does not answer:\n{self.log_of('superlink')}")

  @staticmethod
  def _end(process, number):
    """Sends a signal to a process and the processes that it started."""
    try:
      os.killpg(process.pid, number)
    except ProcessLookupError:
      return
    try:
      process.wait(timeout=10)
    except subprocess.TimeoutExpired:
      os.killpg(process.pid, signal.SIGKILL)
      process.wait()


def _options():
  parser = argparse.ArgumentParser(description=__doc__)
  parser.add_argument("--program", required=True, help="digits.cotan")
  parser.add_argument("--data", required=True, help="folder with the files of MNIST")
  parser.add_argument("--devices", type=int, default=3)
  parser.add_argument("--rounds", type=int, default=3)
  parser.add_argument("--strategy", choices=["fedavg", "fedadam"], default="fedavg")
  parser.add_argument("--fraction", type=float, default=1.0, help="of the devices that train in a round")
  parser.add_argument("--round_timeout", type=float, default=120.0, help="seconds")
  parser.add_argument("--clip", type=float, default=0.0, help="if positive: differential privacy with this norm")
  parser.add_argument("--noise", type=float, default=0.0, help="multiplier of the noise of differential privacy")
  parser.add_argument("--secure", action="store_true", help="secure aggregation")
  parser.add_argument("--stale_program", help="the last device has this version of the program")
  parser.add_argument("--kill_after_round", type=int, help="kill the last device after this round")
  parser.add_argument("--verbose", action="store_true", help="print the server's log, and at the end the devices'")
  return parser.parse_args()


def main():
  options = _options()
  options.program, options.data = str(pathlib.Path(options.program).resolve()), str(pathlib.Path(options.data).resolve())
  with Federation(options) as federation:
    devices = []
    for part in range(options.devices):
      is_stale = options.stale_program is not None and part == options.devices - 1
      devices.append(federation.add_device(part, options.stale_program if is_stale else options.program))

    rounds = 0

    def on_line(line):
      nonlocal rounds
      if options.verbose or line.startswith("round "):
        print(line, flush=True)
      if not line.startswith("round "):
        return
      if int(line.split()[1].rstrip(":")) == options.kill_after_round:
        federation.kill(devices[-1])
      rounds += 1

    status = federation.run(on_line)
    names = [f"device {part}" for part in range(options.devices)]
    if options.verbose:
      for name in names:
        print(f"--- {name}\n{federation.log_of(name)}", flush=True)
    if status == 0 and rounds == options.rounds + 1:
      return 0
    print(f"The run ended with status {status} after {rounds} lines of results.", file=sys.stderr)
    for name in ["superlink"] + names:
      print(f"--- {name}\n{federation.log_of(name)[-3000:]}", file=sys.stderr)
    return 1


if __name__ == "__main__":
  sys.exit(main())
