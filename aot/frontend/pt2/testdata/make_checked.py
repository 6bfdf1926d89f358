# SPDX-License-Identifier: Apache-2.0
"""Writes checked.pt2 and checked_functional.pt2 with torch 2.15.

The model is a layer between two prints, with assertions on its input and output. checked.pt2 is the result of
torch.export.export, checked_functional.pt2 that of run_decompositions().
"""

import operator

import torch


class Checked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros(1))

    def forward(self, x):
        torch.ops.aten._print("before the layer")
        self.seen.add_(1)
        y = self.fc(x)
        torch._assert_async(y.abs().sum() < 1000, "the layer has diverged")
        torch.ops.higher_order.print("after layer {number}: {largest}", number=1, largest=y.max())
        torch._assert_async((self.seen < 3).all())
        return (y * y).mean(), y


def strip(program):
    """Removes source locations from the program."""
    for node in program.graph.nodes:
        for key in ("stack_trace", "torch_fn", "source_fn_stack", "from_node"):
            node.meta.pop(key, None)
    return program


def constrain(program):
    """States the range of the first size, as programs of older torch do."""
    graph = program.graph
    x = next(node for node in graph.nodes if node.name == "x")
    with graph.inserting_after(x):
        size = graph.call_function(torch.ops.aten.sym_size.int, (x, 0))
        size.meta["val"] = x.meta["val"].shape[0]
    with graph.inserting_after(size):
        graph.call_function(torch.ops.aten.sym_constrain_range_for_size.default, (size,), {"min": 2, "max": 16})
        graph.call_function(torch.ops.aten.sym_constrain_range.default, (size,), {"min": 2})
        at_least = graph.call_function(operator.ge, (size, 2))
        at_least.meta["val"] = x.meta["val"].shape[0] >= 2
    with graph.inserting_after(at_least):
        graph.call_function(torch.ops.aten._assert_scalar.default, (at_least, "too few rows"))
    return program


model = Checked()
with torch.no_grad():
    model.fc.weight.copy_(torch.arange(6).view(2, 3) / 4 - 0.5)
    model.fc.bias.copy_(torch.tensor([0.5, -1.0]))
batch = torch.export.Dim("batch", min=2, max=16)
program = torch.export.export(model, (torch.ones(4, 3),), dynamic_shapes=({0: batch},), strict=False)
functional = strip(program.run_decompositions())
torch.export.save(constrain(strip(program)), "checked.pt2")
torch.export.save(functional, "checked_functional.pt2")
