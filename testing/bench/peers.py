#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures training steps of Cotan, PyTorch, JAX and ExecuTorch on the CPU, in turns, and prints one table.

A step is forward, loss, backward and SGD with momentum. Models are those of //testing/bench:step, and .pt2 archives,
which Cotan compiles and PyTorch loads; their first output is the loss. Each peer is a process of its own that is asked
for a block of steps at a time; Cotan has a block before and after each round. A figure is the median over all blocks of
the median of a block. testing/bench/peers.sh installs the peers and calls this.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

MODELS = ["mlp", "cnn", "gpt", "resnet", "lstm", "gru"]
PEERS = ["eager", "compile", "jax", "executorch"]
LEARNING_RATE, MOMENTUM = 0.01, 0.9


class Worker:
    """A process that runs steps of one peer; see peer_worker.py."""

    def __init__(self, peer, model, options):
        script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "peer_worker.py")
        command = [sys.executable, script, peer, model, str(options.threads)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(options.threads)}
        self.errors = tempfile.TemporaryFile(mode="w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
                                        text=True, env=environment)
        self.error = None if self.read() == {"ready": True} else self.last_error()

    def read(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        return None

    def last_error(self):
        self.process.wait()
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors if line.strip()]
        if not lines:
            return f"exit status {self.process.returncode}"
        errors = [i for i, line in enumerate(lines) if re.match(r"[\w.]*Error\b", line)]
        last = errors[-1] if errors else len(lines) - 1
        return " ".join(lines[last:last + 2])[:200]

    def block(self, seconds):
        print(seconds, file=self.process.stdin, flush=True)
        answer = self.read()
        if answer is None:
            raise RuntimeError(self.last_error())
        return answer["median_us"]

    def close(self):
        self.process.kill()
        self.process.wait()


class CotanArchive:
    """Steps of a compiled archive, by `cotan bench`."""

    def __init__(self, archive, options, folder):
        self.options = options
        self.artifact = os.path.join(folder, os.path.basename(archive) + ".cotan")
        command = [os.path.join(options.bin, "aot/compile"), f"--model={archive}", "--loss=output:0",
                   f"--optimizer=sgd(lr={LEARNING_RATE},momentum={MOMENTUM})", f"--out={self.artifact}"]
        subprocess.run(command, check=True, capture_output=True, text=True)
        self.steps = 10
        self.steps = max(5, int(options.seconds * 1e6 / self.block(0)))

    def block(self, seconds):
        del seconds
        command = [os.path.join(self.options.bin, "runtime/tools/cotan"), "bench", self.artifact,
                   "--method=train_step", f"--steps={self.steps}", f"--threads={self.options.threads}"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return float(re.search(r"median ([0-9.]+) us", done.stdout).group(1))


class CotanModel:
    """Steps of a model of //testing/bench:step."""

    def __init__(self, model, options):
        self.options, self.model = options, model

    def block(self, seconds):
        command = [os.path.join(self.options.bin, "testing/bench/step"), f"--models={self.model}", "--json",
                   f"--threads={self.options.threads}", f"--seconds={seconds}", "--min_calls=3"]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        return json.loads(done.stdout.splitlines()[-1])["cotan_us"]


def measure(model, options, folder):
    """Returns the figures by side, and the errors of those that have none."""
    is_archive = model.endswith(".pt2")
    cotan = CotanArchive(model, options, folder) if is_archive else CotanModel(model, options)
    workers = {peer: Worker(peer, model, options) for peer in options.peers}
    errors = {peer: worker.error for peer, worker in workers.items() if worker.error}
    blocks = {"cotan": [], **{peer: [] for peer in workers if peer not in errors}}
    for _ in range(options.rounds):
        blocks["cotan"].append(cotan.block(options.seconds))
        for peer in [side for side in blocks if side != "cotan"]:
            try:
                blocks[peer].append(workers[peer].block(options.seconds))
            except RuntimeError as error:
                errors[peer] = str(error)
                del blocks[peer]
    blocks["cotan"].append(cotan.block(options.seconds))
    for worker in workers.values():
        worker.close()
    return {side: statistics.median(figures) for side, figures in blocks.items()}, errors


def row(model, figures, options):
    name = os.path.basename(model).removesuffix(".pt2")
    cells = [f"{figures[side]:.1f}" if side in figures else "-" for side in ["cotan"] + options.peers]
    best = min((figures[peer] for peer in options.peers if peer in figures), default=None)
    cells.append("-" if best is None else f"{best / figures['cotan']:.2f}")
    return f"| {name} | " + " | ".join(cells) + " |"


def parse(arguments):
    words = lambda text: [word for word in text.split(",") if word]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=words, default=MODELS, help="names, or files MODEL.pt2")
    parser.add_argument("--peers", type=words, default=PEERS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="of a block")
    parser.add_argument("--bin", default="bazel-bin", help="folder of the build's results")
    options = parser.parse_args(arguments)
    unknown = [peer for peer in options.peers if peer not in PEERS]
    unknown += [model for model in options.models if model not in MODELS and not model.endswith(".pt2")]
    if unknown:
        parser.error(f"{', '.join(unknown)}: known are the peers {', '.join(PEERS)}, the models {', '.join(MODELS)}, "
                     "and .pt2 archives")
    return options


def main():
    options = parse(sys.argv[1:])
    errors = {}
    print("| median µs of a step | cotan | " + " | ".join(options.peers) + " | best peer / cotan |")
    print("|---" * (len(options.peers) + 3) + "|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for model in options.models:
            figures, errors[model] = measure(model, options, folder)
            print(row(model, figures, options), flush=True)
    for model, failed in errors.items():
        for peer, error in failed.items():
            print(f"{os.path.basename(model)}: no figure of {peer}: {error}")


if __name__ == "__main__":
    main()
