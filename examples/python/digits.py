# SPDX-License-Identifier: Apache-2.0
"""From an nn.Module to a program that C trains.

  python3 digits.py digits.cotan        # compiles the module, and trains it here with tensors of PyTorch
  train digits.cotan                    # trains the same file in C (examples/c/train.c), without Python
"""

import sys

import cotan
import torch
from torch import nn


def Batch(generator, count=64):
  """Returns images with a bright square on noise, and its places as labels."""
  labels = torch.randint(10, (count,), generator=generator)
  images = torch.rand(count, 1, 28, 28, generator=generator) * 0.5
  for image, label in zip(images, labels.tolist()):
    y, x = label // 5 * 14 + 4, label % 5 * 5 + 1
    image[0, y:y + 5, x:x + 5] += 1
  return images, labels


if len(sys.argv) != 2:
  sys.exit("usage: python3 digits.py digits.cotan")

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 8, 3, stride=2), nn.BatchNorm2d(8), nn.ReLU(),
    nn.Conv2d(8, 16, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 36, 10))

generator = torch.Generator().manual_seed(1)
images, labels = Batch(generator)
batch = ("batch", 2, 64)
program = cotan.compile(net, (images,), loss=nn.CrossEntropyLoss(), targets=(labels,), optimizer="adam(lr=2e-3)",
                        dynamic={"input": {0: batch}, "target": {0: batch}}, out=sys.argv[1])

session = cotan.Session(program)
session.load_state_dict(net.state_dict())  # the file has these values, too; here they could be others
for step in range(40):
  logits, loss = session.run("train_step", *Batch(generator))
  if step % 10 == 9:
    print(f"step {step + 1}: loss {loss.item():.4f}")

net.load_state_dict(session.state_dict())  # back to PyTorch
images, labels = Batch(generator)
expected = net.eval()(images)
logits, = session.run("eval", images)
print(f"accuracy {(logits.argmax(1) == labels).float().mean().item():.2f}, "
      f"difference from PyTorch {(logits - expected).abs().max().item():.1e}")
