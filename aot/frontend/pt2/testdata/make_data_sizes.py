# SPDX-License-Identifier: Apache-2.0
"""Writes data_sizes.pt2 and unbounded_sizes.pt2 with torch 2.15: a detection head, whose sizes depend on data.

Rows with a positive first column are refined, and the refined numbers above 0.25 are returned. torch._check() declares
the maximum of the first size; torch.export computes that of the second. unbounded_sizes.pt2 has no maximum.
"""

import torch


class Detector(torch.nn.Module):
    def __init__(self, most):
        super().__init__()
        self.most = most
        self.body = torch.nn.Linear(3, 4)
        self.box = torch.nn.Linear(4, 2)

    def forward(self, x, target):
        features = torch.tanh(self.body(x))
        rows = (x[:, 0] > 0).nonzero().squeeze(1)
        if self.most is not None:
            torch._check(rows.size(0) <= self.most)
        boxes = self.box(features[rows])
        kept = boxes[boxes > 0.25]
        loss = ((boxes - target[rows]) ** 2).sum() / x.shape[0] + (kept * kept).sum()
        return loss, boxes, kept


def strip(program):
    """Removes source locations from the program."""
    for node in program.graph.nodes:
        for key in ("stack_trace", "torch_fn", "source_fn_stack", "from_node"):
            node.meta.pop(key, None)
    return program


def export(model, most_rows):
    with torch.no_grad():
        model.body.weight.copy_(torch.arange(12).view(4, 3) / 8 - 0.7)
        model.body.bias.copy_(torch.tensor([0.5, -1.0, 0.25, 0.0]))
        model.box.weight.copy_(torch.arange(8).view(2, 4) / 4 - 0.9)
        model.box.bias.copy_(torch.tensor([0.25, 0.5]))
    x = torch.tensor([[1.0, 0.5, -0.5], [-1.0, 0.25, 2.0], [0.5, -0.75, 1.0], [2.0, 0.125, 0.5], [-0.5, 0.5, 0.5]])
    target = torch.arange(10).view(5, 2) / 8
    batch = torch.export.Dim("batch", min=2, max=most_rows)
    return strip(torch.export.export(model, (x, target), dynamic_shapes=({0: batch}, {0: batch}), strict=False))


def main():
    torch.export.save(export(Detector(most=4), most_rows=32), "data_sizes.pt2")
    torch.export.save(export(Detector(most=None), most_rows=None), "unbounded_sizes.pt2")


if __name__ == "__main__":
    main()
