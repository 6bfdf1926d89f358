#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Derives what a step of data parallel training takes on many nodes (docs/distributed.md).

A bucket of b bytes is exchanged by W ranks in two rounds of W - 1 messages. With the latency L of the network, the time o
of a processor for a message, the rate B of a link and the rate S at which a processor adds shards, it takes

    2 (L + (W - 1) o) + 2 (W - 1) / W b / B + b / S

All buckets but the last are sent while what follows the forward computes. Other ways to add a bucket, for comparison: a ring sends
2 (W - 1) messages one after another, halving and doubling 2 log2(W). All send as many bytes.

Without flags, the tables of the page are printed: measured and assumed figures, and what follows from them. With
--step_ms, --rows and --gradient_mb, the tables of another model.
"""
import argparse
import collections
import math

Model = collections.namedtuple("Model", "name step_ms forward_ms rows gradient_mb")
Network = collections.namedtuple("Network", "name latency_us gb_per_s message_us")

# Measured on 2026-11-25, on one machine (docs/distributed.md).
MODELS = [Model("gpt", 34.0, 13.3, 8, 3.73), Model("resnet", 50.2, 17.2, 16, 1.23)]
TCP_MESSAGE_US = 6.6  # o, over TCP on loopback
MEMORY_MESSAGE_US = 0.35  # o, over shared memory
SUM_GB_PER_S = 5.7  # S

# L and B are assumed: there were not two machines to measure. RDMA makes no system calls, as shared memory does not.
NETWORKS = [Network("Ethernet, 10 Gb/s", 20, 1.1, TCP_MESSAGE_US), Network("RDMA, 100 Gb/s", 2, 11, MEMORY_MESSAGE_US)]

BUCKET_MB = 1.0  # DataParallelOptions.bucket_bytes
NODES = [8, 32, 100, 320, 1000]


def rounds(way, nodes, network):
    """Returns the seconds of a bucket that do not depend on its size."""
    latency, message = network.latency_us * 1e-6, network.message_us * 1e-6
    if way == "direct":
        return 2 * (latency + (nodes - 1) * message)
    if way == "ring":
        return 2 * (nodes - 1) * (latency + message)
    return 2 * math.ceil(math.log2(nodes)) * (latency + message)


def step(way, nodes, model, network, rows):
    """Returns the seconds that a step computes, communicates and takes, with `rows` rows for each node."""
    gradient = model.gradient_mb * 1e6
    buckets = math.ceil(model.gradient_mb / BUCKET_MB)
    compute = model.step_ms * 1e-3 * rows / model.rows
    communication = (buckets * rounds(way, nodes, network) + 2 * gradient * (nodes - 1) / nodes /
                     (network.gb_per_s * 1e9) + gradient / (SUM_GB_PER_S * 1e9))
    last = communication / buckets
    backward = compute * (1 - model.forward_ms / model.step_ms)
    hidden = min(communication - last, backward * (buckets - 1) / buckets)
    return compute, communication, compute + communication - hidden


def print_table(title, model, rows_of):
    """Prints a line for each number of nodes; rows_of(nodes) is the number of rows of one node."""
    print(f"\n{title}\n")
    head = "| nodes | computes ms |"
    for network in NETWORKS:
        head += f" {network.name}: communicates ms | step ms | efficiency | with a ring | halving and doubling |"
    print(head)
    print("|" + "---|" * (2 + 5 * len(NETWORKS)))
    for nodes in NODES:
        rows = rows_of(nodes)
        line = f"| {nodes} | {step('direct', nodes, model, NETWORKS[0], rows)[0] * 1e3:.1f} |"
        for network in NETWORKS:
            compute, communication, seconds = step("direct", nodes, model, network, rows)
            share = {way: compute / step(way, nodes, model, network, rows)[2] for way in ("direct", "ring", "halving")}
            line += (f" {communication * 1e3:.1f} | {seconds * 1e3:.1f} | {share['direct']:.0%} | {share['ring']:.0%} |"
                     f" {share['halving']:.0%} |")
        print(line)
    halves = [f"{loses_half(model, network, rows_of)} ({network.name})" for network in NETWORKS]
    print(f"\nHalf of the time is lost from so many nodes on: {', '.join(halves)}.")


def loses_half(model, network, rows_of):
    """Returns the number of nodes from which on half of the time is lost."""
    for nodes in range(2, 1000001):
        compute, _, seconds = step("direct", nodes, model, network, rows_of(nodes))
        if compute < seconds / 2:
            return nodes
    return "more than a million"


def print_model(model):
    """Prints what steps take with the rows of the measured step on each node, and with a batch that is divided."""
    total = 1000 * model.rows
    print_table(f"{model.name}, {model.rows} rows for each node, so that the batch grows:", model, lambda nodes: model.rows)
    print_table(f"{model.name}, {total} rows, which all nodes divide:", model, lambda nodes: total / nodes)


def print_figures():
    print("| measured | |\n|---|---|")
    for model in MODELS:
        print(f"| {model.name}, {model.rows} rows, one thread: a step, of which the forward | {model.step_ms} ms, "
              f"{model.forward_ms} ms |")
        print(f"| {model.name}: gradients | {model.gradient_mb} MB |")
    print(f"| o, a processor for a message: over TCP, over memory | {TCP_MESSAGE_US} µs, {MEMORY_MESSAGE_US} µs |")
    print(f"| S, a processor adds shards | {SUM_GB_PER_S} GB/s |")
    print("\n| assumed | L | B | o |\n|---|---|---|---|")
    for network in NETWORKS:
        print(f"| {network.name} | {network.latency_us} µs | {network.gb_per_s} GB/s | as measured over "
              f"{'TCP' if network.message_us == TCP_MESSAGE_US else 'memory'} |")
    print(f"\nBuckets of {BUCKET_MB} MB are assumed (`bucket_bytes`, by default 4 MiB).")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step_ms", type=float, help="a step of one node")
    parser.add_argument("--forward_ms", type=float, help="of which the forward takes; a third if not given")
    parser.add_argument("--rows", type=int, default=1, help="rows of its batch")
    parser.add_argument("--gradient_mb", type=float, help="all gradients")
    a = parser.parse_args()
    if (a.step_ms is None) != (a.gradient_mb is None):
        parser.error("give both --step_ms and --gradient_mb")
    print_figures()
    models = MODELS
    if a.step_ms is not None:
        models = [Model("model", a.step_ms, a.forward_ms or a.step_ms / 3, a.rows, a.gradient_mb)]
    for model in models:
        print_model(model)


if __name__ == "__main__":
    main()
