# SPDX-License-Identifier: Apache-2.0
"""Writes numbers.pt2 and number_sizes.pt2 with torch 2.15: programs with numbers as inputs.

numbers.pt2 computes with an int that may differ from call to call; the float was specialized by the export.
number_sizes.pt2 cuts a tensor at an int. torch.export has no floats that differ from call to call.
"""

import torch


class Numbers(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))

    def forward(self, x, n, scale):
        y = x * self.weight * n
        return y + (n * 2 - 1) * scale, y.sum() / n, x > n


class NumberSizes(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))

    def forward(self, x, n):
        rows = x[:n] * self.weight
        return rows * n, rows.sum(0) / n


def strip(program):
    """Removes source locations from the program."""
    for node in program.graph.nodes:
        for key in ("stack_trace", "torch_fn", "source_fn_stack", "from_node"):
            node.meta.pop(key, None)
    return program


def main():
    dynamic = torch.export.Dim.DYNAMIC
    x = torch.ones(8, 3)
    program = torch.export.export(
        Numbers(), (x, 5, 0.25), dynamic_shapes={"x": None, "n": dynamic, "scale": None}, strict=False
    )
    torch.export.save(strip(program), "numbers.pt2")
    program = torch.export.export(NumberSizes(), (x, 5), dynamic_shapes={"x": None, "n": dynamic}, strict=False)
    torch.export.save(strip(program), "number_sizes.pt2")


if __name__ == "__main__":
    main()
