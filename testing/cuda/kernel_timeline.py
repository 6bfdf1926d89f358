#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints how long the nodes of a step's CUDA graph take.

usage: kernel_timeline.py [--top=N] FILE...

Each FILE was written by the library kernel_timeline (kernel_timeline.cc) while a program replayed a graph. Prints the
medians over the replays, after the first three: all nodes in order, or with --top=N the N kernels with the largest sums.
"""
import collections
import statistics
import sys

WARMUP = 3
NAME_LENGTH = 100


def read(path):
    """Returns (start, end, grid, block, registers, graph, node, name) of what ran inside of graphs, by start."""
    rows = []
    with open(path) as file:
        for line in file:
            fields = line.rstrip("\n").split(" ", 7)
            rows.append((*map(int, fields[:7]), fields[7]))
    return sorted(row for row in rows if row[5] != 0)


def replays_of(rows):
    """Returns the lists of nodes of all complete replays of the graph that ran first, in the order of its first replay.

    Nodes of parallel branches may begin in another order in another replay.
    """
    order = []
    for row in rows:
        if row[6] in order:
            break
        order.append(row[6])
    count = len(order)
    groups = [rows[i : i + count] for i in range(0, len(rows) - count + 1, max(count, 1))]
    by_node = [{row[6]: row for row in group} for group in groups]
    return [[replay[node] for node in order] for replay in by_node if replay.keys() == set(order)][WARMUP:]


def summarize(path, top):
    replays = replays_of(read(path))
    if not replays:
        print(f"{path}: no graph was replayed more than {WARMUP} times")
        return
    nodes = []
    for i, first in enumerate(replays[0]):
        time = statistics.median(replay[i][1] - replay[i][0] for replay in replays) / 1e3
        gap = statistics.median(replay[i][0] - replay[i - 1][1] for replay in replays) / 1e3 if i > 0 else 0
        nodes.append((time, gap, *first[2:5], first[7][:NAME_LENGTH]))
    span = statistics.median(replay[-1][1] - replay[0][0] for replay in replays) / 1e3
    busy = sum(node[0] for node in nodes)
    print(f"{path}: {len(nodes)} nodes, {span:.1f} us from the first to the last, {busy:.1f} us inside of nodes")
    if top == 0:
        print("  us    gap  grid    block  registers  name")
        for time, gap, grid, block, registers, name in nodes:
            print(f"{time:6.2f} {gap:5.2f} {grid:7d} {block:5d} {registers:4d}  {name}")
        return
    sums = collections.Counter()
    counts = collections.Counter()
    for time, _, _, _, _, name in nodes:
        sums[name] += time
        counts[name] += 1
    for name, time in sums.most_common(top):
        print(f"{time:8.1f} us in {counts[name]:3d} nodes  {name}")


def main():
    top, paths = 0, []
    for argument in sys.argv[1:]:
        if argument.startswith("--top="):
            top = int(argument.removeprefix("--top="))
        else:
            paths.append(argument)
    if not paths:
        sys.exit(__doc__)
    for path in paths:
        summarize(path, top)


if __name__ == "__main__":
    main()
