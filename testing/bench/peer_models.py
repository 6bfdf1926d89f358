# SPDX-License-Identifier: Apache-2.0
"""The models of the benchmarks in PyTorch, with the shapes of testing/models/networks.cc and testing/cuda/bench_models.cc."""
import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.shortcut = None
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        hidden = torch.relu(self.norm1(self.conv1(x)))
        shortcut = x if self.shortcut is None else self.shortcut(x)
        return torch.relu(self.norm2(self.conv2(hidden)) + shortcut)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.expand = nn.Linear(width, 4 * width)
        self.contract = nn.Linear(4 * width, width)

    def attend(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)

    def forward(self, x):
        x = x + self.projection(self.attend(self.norm1(x)))
        return x + self.contract(F.gelu(self.expand(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, context, vocabulary=512, width=128, heads=4, layers=4):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.output = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.output(self.norm(x)).flatten(0, 1)


class Tagger(nn.Module):
    def __init__(self, recurrent, vocabulary=64, width=128, hidden=128):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.recurrent = recurrent(width, hidden, batch_first=True)
        self.output = nn.Linear(hidden, vocabulary)

    def forward(self, tokens):
        return self.output(self.recurrent(self.tokens(tokens))[0]).flatten(0, 1)


def make_model(name):
    """Returns a module, an input and a label on the host."""
    if name == "mlp":
        layers = [nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)]
        return nn.Sequential(*layers), torch.randn(32, 784), torch.randint(10, (32,))
    if name == "cnn":
        layers = [nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)]
        layers += [nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)]
        layers += [nn.Flatten(), nn.Linear(32 * 49, 10)]
        return nn.Sequential(*layers), torch.randn(32, 1, 28, 28), torch.randint(10, (32,))
    if name in ("resnet", "resnet128"):
        batch = 16 if name == "resnet" else 128
        layers = [nn.Conv2d(3, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU()]
        layers += [Residual(32, 32, 1), Residual(32, 64, 2), Residual(64, 128, 2)]
        layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10)]
        return nn.Sequential(*layers), torch.randn(batch, 3, 32, 32), torch.randint(10, (batch,))
    if name in ("gpt", "gpt512"):
        length = 64 if name == "gpt" else 512
        return Gpt(length), torch.randint(512, (8, length)), torch.randint(512, (8 * length,))
    if name in ("lstm", "gru"):
        model = Tagger(nn.LSTM if name == "lstm" else nn.GRU)
        return model, torch.randint(64, (16, 64)), torch.randint(64, (16 * 64,))
    raise ValueError(f"unknown model {name}")
