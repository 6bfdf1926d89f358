#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures training steps in PyTorch on a GPU, and Cotan's in turns with them.

The models are those of peer_models.py. Prints one JSON object per
line with the keys of `bench` (step_bench.h). With --cotan_bench each group of PyTorch's measurements is between two of
Cotan's; without it only PyTorch is measured.

Figures of PyTorch: "eager" is SGD as it comes, "eager_fused" its fused kernels, "compile" is torch.compile of forward,
backward and optimizer, "reduce-overhead" and "max-autotune" are that mode of it, "graph" is a CUDA graph of the whole
eager step (with fused SGD), "graph_compile" one of the compiled step.

Each measurement of PyTorch has a process of its own. Groups of --side_by_side of them compile together, then they are
measured one after another; "first_step_ms" is thus the time beside the others of the group, from an empty cache.
"""
import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn.functional as F

from peer_models import make_model

MODELS = ["mlp", "cnn", "gpt", "resnet", "lstm", "gru", "resnet128", "gpt512"]
PRECISIONS = ["f32", "tf32", "bf16"]
MODES = ["eager", "eager_fused", "compile", "reduce-overhead", "graph", "graph_compile"]
# Numbers of classes of inputs and labels.
CLASSES = {"gpt": 512, "gpt512": 512, "lstm": 64, "gru": 64}
ALL_MODES = MODES + ["max-autotune"]


class Step:
    """A training step of one model in one mode; the loss stays on the GPU."""

    def __init__(self, name, precision, mode):
        torch.manual_seed(1)
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        model, x, y = make_model(name)
        self.model = model.cuda().train()
        self.host = [(x.pin_memory(), y.pin_memory()), (x.clone().pin_memory(), y.clone().pin_memory())]
        self.x, self.y = x.cuda(), y.cuda()
        fused = True if mode in ("eager_fused", "graph") else None
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, fused=fused)
        self.bf16 = precision == "bf16"
        self.is_trees = mode in ("reduce-overhead", "max-autotune")
        if self.is_trees:
            # The optimizer's states must not be tensors that a graph of CUDA overwrites.
            self.loss_of(self.x, self.y).backward()
            self.optimizer.step()
        self.graph = None
        self.compute_loss, self.update = self.loss_of, self.optimizer.step
        if mode in ("compile", "graph_compile"):
            self.compute_loss, self.update = torch.compile(self.loss_of), torch.compile(self.optimizer.step)
        elif self.is_trees:
            self.compute_loss = torch.compile(self.loss_of, mode=mode)
            self.update = torch.compile(self.optimizer.step, mode=mode)
        if mode in ("graph", "graph_compile"):
            self.capture()

    def loss_of(self, x, y):
        # The cache of casts would keep tensors of an earlier step alive, which a graph cannot.
        with torch.autocast("cuda", torch.bfloat16, enabled=self.bf16, cache_enabled=False):
            return F.cross_entropy(self.model(x), y)

    def eager(self):
        self.optimizer.zero_grad(set_to_none=True)
        if self.is_trees:
            torch.compiler.cudagraph_mark_step_begin()
        loss = self.compute_loss(self.x, self.y)
        loss.backward()
        self.update()
        return loss.detach()

    def capture(self):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self.eager()
        torch.cuda.current_stream().wait_stream(stream)
        self.optimizer.zero_grad(set_to_none=True)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.loss = self.eager()

    def run(self, host_batch=None):
        if host_batch is not None:
            x, y = self.host[host_batch % 2]
            self.x.copy_(x, non_blocking=True)
            self.y.copy_(y, non_blocking=True)
        if self.graph is None:
            return self.eager()
        self.graph.replay()
        return self.loss


def measure(step, options, from_host):
    losses = [step.run(0 if from_host else None).item() for _ in range(options.warmup)]
    blocks, host, count = [], [], 0
    start = time.perf_counter()
    while time.perf_counter() - start < options.seconds or count < options.block:
        begin = time.perf_counter()
        for _ in range(options.block):
            call = time.perf_counter()
            loss = step.run(count if from_host else None)
            host.append(time.perf_counter() - call)
            count += 1
        loss.item()
        blocks.append((time.perf_counter() - begin) / options.block)
    return {
        "inputs": "host" if from_host else "resident",
        "steps": count,
        "block": options.block,
        "median_us": statistics.median(blocks) * 1e6,
        "min_us": min(blocks) * 1e6,
        "host_us": statistics.median(host) * 1e6,
        "losses": losses,
    }


def emit(record):
    print(json.dumps(record), flush=True)


class Peer:
    """A process that compiles a step of PyTorch, and measures it on request."""

    def __init__(self, options, precision, name, mode):
        self.labels = {"side": "torch " + mode, "model": name, "precision": precision, "device": "cuda"}
        self.model, self.precision = name, precision
        command = [sys.executable, __file__, "--one", f"--precisions={precision}", f"--models={name}", f"--modes={mode}"]
        command += [f"--inputs={','.join(options.inputs)}", f"--seconds={options.seconds}"]
        command += [f"--block={options.block}", f"--warmup={options.warmup}"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def wait_until_ready(self):
        self.first = self.process.stdout.readline()

    def measure(self):
        if not self.first:
            emit({**self.labels, "error": f"the process ended with status {self.process.wait()}"})
            return
        first = json.loads(self.first)
        if "error" in first:
            emit({**self.labels, **first})
            return
        print("measure", file=self.process.stdin, flush=True)
        for line in self.process.stdout:
            emit({**self.labels, **first, **json.loads(line)})
        self.process.wait()

    def stop(self, why):
        self.process.kill()
        self.process.wait()
        emit({**self.labels, "error": why})


def run_one(name, precision, mode, options):
    """Is the process of a Peer: prints a line when the step is compiled, and one per measurement after a line came."""
    try:
        start = time.perf_counter()
        step = Step(name, precision, mode)
        step.run().item()
        torch.cuda.synchronize()
        emit({"first_step_ms": (time.perf_counter() - start) * 1e3})
        if not sys.stdin.readline():
            return
        for inputs in options.inputs:
            record = measure(step, options, inputs == "host")
            emit({**record, "gpu_bytes": torch.cuda.max_memory_reserved()})
    except Exception as error:
        emit({"error": f"{type(error).__name__}: {str(error)[:400]}"})


def measure_cotan(name, precision, options):
    file_precision = "bf16" if precision == "bf16" else "f32"
    artifact = os.path.join(options.artifacts, f"{name}_{file_precision}.cotan")
    command = [options.cotan_bench, f"--artifact={artifact}", "--device=cuda", f"--label={name}"]
    command += [f"--max_index={CLASSES.get(name, 10)}"]
    command += [f"--inputs={','.join(options.inputs)}", f"--steps={options.steps}", f"--block={options.block}"]
    command += [f"--warmup={options.warmup}", f"--tf32={'true' if precision == 'tf32' else 'false'}"]
    environment = dict(os.environ)
    if options.cotan_library_path:
        environment["LD_LIBRARY_PATH"] = options.cotan_library_path
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    for line in done.stdout.splitlines():
        emit({**json.loads(line), "precision": precision})
    if done.returncode != 0:
        emit({"side": "cotan", "model": name, "precision": precision, "error": done.stderr[-400:]})


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words = lambda text: text.split(",")
    parser.add_argument("--models", type=words, default=MODELS)
    parser.add_argument("--precisions", type=words, default=PRECISIONS)
    parser.add_argument("--modes", type=words, default=MODES, help=f"of {', '.join(ALL_MODES)}")
    parser.add_argument("--inputs", type=words, default=["resident", "host"])
    parser.add_argument("--seconds", type=float, default=1.0, help="of each of PyTorch's measurements")
    parser.add_argument("--block", type=int, default=10, help="steps between two reads of the loss")
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--budget", type=float, default=1e9, help="seconds after which no measurement begins")
    parser.add_argument("--cotan_bench", default="", help="Cotan's benchmark; empty: measure PyTorch only")
    parser.add_argument("--artifacts", default=".", help="folder of MODEL_PRECISION.cotan")
    parser.add_argument("--side_by_side", type=int, default=16, help="processes of PyTorch that compile together")
    parser.add_argument("--wait_for", default="", help="file; nothing is measured before it exists")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, default=1000, help="of each of Cotan's measurements")
    parser.add_argument("--cotan_library_path", default="", help="LD_LIBRARY_PATH of Cotan's benchmark")
    options = parser.parse_args()
    for given, known in ((options.models, MODELS), (options.precisions, PRECISIONS), (options.modes, ALL_MODES)):
        unknown = [word for word in given if word not in known]
        if unknown:
            parser.error(f"{', '.join(unknown)}: known are {', '.join(known)}")
    return options


def measure_group(peers, options, end):
    """Waits until all peers are compiled, then measures each; Cotan before and after those of one model."""
    for peer in peers:
        peer.wait_until_ready()
    while options.wait_for and not os.path.exists(options.wait_for):
        time.sleep(0.1)
    for (name, precision), group in itertools.groupby(peers, lambda peer: (peer.model, peer.precision)):
        if time.monotonic() > end:
            for peer in group:
                peer.stop("not measured: out of time")
            continue
        if options.cotan_bench:
            measure_cotan(name, precision, options)
        for peer in group:
            peer.measure()
        if options.cotan_bench:
            measure_cotan(name, precision, options)


def main():
    options = parse()
    if not torch.cuda.is_available():
        sys.exit("peers.py: PyTorch finds no GPU")
    if options.one:
        return run_one(options.models[0], options.precisions[0], options.modes[0], options)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp(prefix="peers_inductor_")
    end = time.monotonic() + options.budget
    emit({"side": "machine", "torch": torch.__version__, "gpu": torch.cuda.get_device_name()})
    cases = list(itertools.product(options.precisions, options.models, options.modes))
    for first in range(0, len(cases), options.side_by_side):
        if time.monotonic() > end:
            emit({"side": "none", "error": f"not measured, out of time: {cases[first:]}"})
            return
        group = cases[first : first + options.side_by_side]
        measure_group([Peer(options, *case) for case in group], options, end)


if __name__ == "__main__":
    main()
