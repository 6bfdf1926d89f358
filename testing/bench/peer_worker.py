#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs training steps of one peer: peer_worker.py PEER MODEL THREADS, started by peers.py.

After some steps it prints {"ready": true}. Then it reads a number of seconds per line, runs steps for that long, and
answers {"median_us": ...}.
"""
import json
import statistics
import sys
import time

LEARNING_RATE, MOMENTUM = 0.01, 0.9
WARM_UP = 3


def torch_model(name):
    """Returns a function that gives the loss, and the parameters."""
    import torch

    if name.endswith(".pt2"):
        program = torch.export.load(name)
        module = program.module()
        arguments, keywords = program.example_inputs

        def archive_loss():
            outputs = module(*arguments, **keywords)
            return outputs[0] if isinstance(outputs, (tuple, list)) else outputs

        return archive_loss, [p for p in module.parameters() if p.requires_grad]
    from peer_models import make_model

    model, x, y = make_model(name)
    model.train()
    return lambda: torch.nn.functional.cross_entropy(model(x), y), list(model.parameters())


def torch_step(name, threads, is_compiled):
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    loss_of, parameters = torch_model(name)
    optimizer = torch.optim.SGD(parameters, lr=LEARNING_RATE, momentum=MOMENTUM)
    update = optimizer.step
    if is_compiled:
        loss_of, update = torch.compile(loss_of), torch.compile(optimizer.step)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss_of().backward()
        update()

    return step


def executorch_step(name, threads):
    """Exports forward and backward of a model of peer_models.py, and runs them in ExecuTorch's training module."""
    import torch
    from executorch.exir import to_edge
    from executorch.extension.training import _load_for_executorch_for_training_from_buffer, get_sgd_optimizer
    from torch.export import export
    from torch.export.experimental import _export_forward_backward

    from peer_models import make_model

    torch.set_num_threads(threads)
    model, x, y = make_model(name)

    class WithLoss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, x, y):
            return torch.nn.functional.cross_entropy(self.model(x), y)

    joint = _export_forward_backward(export(WithLoss().train(), (x, y)))
    buffer = to_edge(joint).to_executorch().buffer
    module = _load_for_executorch_for_training_from_buffer(buffer)  # borrows the buffer
    optimizer = None

    def step():
        nonlocal optimizer
        module.forward_backward("forward", (x, y))
        if optimizer is None:
            optimizer = get_sgd_optimizer(module.named_parameters(), LEARNING_RATE, MOMENTUM)
        optimizer.step(module.named_gradients())

    step.buffer = buffer
    return step


def make_step(peer, model, threads):
    if peer in ("eager", "compile"):
        return torch_step(model, threads, peer == "compile")
    if model.endswith(".pt2"):
        sys.exit("only models of peer_models.py")
    if peer == "executorch":
        return executorch_step(model, threads)
    from peer_jax import jax_step

    return jax_step(model, threads, LEARNING_RATE, MOMENTUM)


def block(step, seconds):
    times = []
    start = time.perf_counter()
    while not times or time.perf_counter() - start < seconds:
        begin = time.perf_counter()
        step()
        times.append(time.perf_counter() - begin)
    return statistics.median(times) * 1e6


def main():
    peer, model, threads = sys.argv[1], sys.argv[2], int(sys.argv[3])
    step = make_step(peer, model, threads)
    for _ in range(WARM_UP):
        step()
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        step()  # the caches hold another process's data
        print(json.dumps({"median_us": block(step, float(line))}), flush=True)


if __name__ == "__main__":
    main()
