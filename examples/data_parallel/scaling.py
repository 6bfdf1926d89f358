#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Derives what a step of data parallel training takes on many nodes (docs/distributed.md).

A bucket of b bytes is exchanged in two rounds of W - 1 messages: L seconds pass until the first one arrives, o seconds of
a processor are spent on each, and (W - 1) / W of the bucket crosses the link in each round; in between, a processor adds
W shards. Other ways to add a bucket, for
comparison: a ring sends 2 (W - 1) messages one after another, halving and doubling 2 log2(W). All send as many bytes.

The buckets but the last are sent while the backward computes.
"""
import argparse
import math


def rounds(way, nodes, latency, overhead):
    """Returns the seconds of a bucket that do not depend on its size."""
    if way == "direct":
        return 2 * (latency + (nodes - 1) * overhead)
    if way == "ring":
        return 2 * (nodes - 1) * (latency + overhead)
    return 2 * math.ceil(math.log2(nodes)) * (latency + overhead)


def step(way, nodes, a):
    """Returns the seconds that a step computes, communicates and takes."""
    gradient, bucket = a.gradient_mb * 1e6, a.bucket_mb * 1e6
    buckets = math.ceil(gradient / bucket)
    compute = a.row_ms / 1e3 * (a.rows / nodes if a.rows else a.rows_per_node)
    communication = (buckets * rounds(way, nodes, a.latency_us * 1e-6, a.message_us * 1e-6)
                     + 2 * gradient * (nodes - 1) / nodes / (a.gb_per_s * 1e9) + gradient / (a.sum_gb_per_s * 1e9))
    last = communication / buckets
    hidden = min(communication - last, a.backward * compute * (buckets - 1) / buckets)
    return compute, communication, compute + communication - hidden


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--row_ms", type=float, required=True, help="a step of one node, for each row of its batch")
    parser.add_argument("--rows_per_node", type=float, default=1, help="rows of each node: the batch grows with the nodes")
    parser.add_argument("--rows", type=float, help="rows of the whole batch, which the nodes divide")
    parser.add_argument("--gradient_mb", type=float, required=True, help="all gradients")
    parser.add_argument("--bucket_mb", type=float, default=4.194304)
    parser.add_argument("--backward", type=float, default=2 / 3, help="share of the step")
    parser.add_argument("--latency_us", type=float, default=20, help="of the network")
    parser.add_argument("--message_us", type=float, default=2, help="of a processor for one message")
    parser.add_argument("--gb_per_s", type=float, default=1.1, help="of a node's link")
    parser.add_argument("--sum_gb_per_s", type=float, default=4, help="rate at which a processor adds shards")
    parser.add_argument("--nodes", type=int, nargs="+", default=[8, 32, 100, 320, 1000])
    a = parser.parse_args()
    print("| nodes | computes ms | communicates ms | step ms | efficiency | with a ring | halving and doubling |")
    print("|---|---|---|---|---|---|---|")
    for nodes in a.nodes:
        compute, communication, seconds = step("direct", nodes, a)
        share = {way: compute / step(way, nodes, a)[2] for way in ("direct", "ring", "halving")}
        print(f"| {nodes} | {compute * 1e3:.1f} | {communication * 1e3:.1f} | {seconds * 1e3:.1f} | "
              f"{share['direct']:.0%} | {share['ring']:.0%} | {share['halving']:.0%} |")
    counts = range(2, 100001)
    half = next((n for n in counts if step("direct", n, a)[0] < step("direct", n, a)[2] / 2), None)
    print(f"Half of the time is lost from {half} nodes on." if half else "Efficiency stays above one half.")
    if a.rows:
        print(f"A step takes the least time with {min(counts, key=lambda n: step('direct', n, a)[2])} nodes.")


if __name__ == "__main__":
    main()
