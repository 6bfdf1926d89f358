# SPDX-License-Identifier: Apache-2.0
"""What server and devices share: the program, its states as arrays, and images in the files of MNIST."""

import hashlib
import pathlib

import cotan_runtime as cotan
import numpy as np


def load_program(path):
  """Returns the program at a path and the checksum of its file, by which server and devices compare versions."""
  data = pathlib.Path(path).read_bytes()
  return cotan.Program.from_bytes(data, str(path)), hashlib.sha256(data).hexdigest()


def check_version(own, expected):
  """Raises ValueError if a device has another version of the program than the server."""
  if own != expected:
    raise ValueError(f"the device has version {own[:12]} of the program, the server has {expected[:12]}; update it")


def shared_states(program):
  """Returns the names of the states that are averaged: parameters, and statistics such as running means."""
  return [
      state.name for state in program.states.values()
      if state.role in ("parameter", "buffer") and state.persistent and np.issubdtype(state.dtype, np.floating)
  ]


def get_arrays(session):
  return {name: np.array(session.state(name)) for name in shared_states(session.program)}


def set_arrays(session, arrays):
  for name in shared_states(session.program):
    session.set_state(name, np.ascontiguousarray(arrays[name], dtype=session.program.states[name].dtype))


def _read_idx(path):
  """Returns the unsigned bytes of an IDX file."""
  data = path.read_bytes()
  rank = data[3]
  sizes = np.frombuffer(data, ">u4", rank, 4)
  return np.frombuffer(data, np.uint8, offset=4 + 4 * rank).reshape(sizes)


def read_images(folder, name, part=0, parts=1):
  """Returns every `parts`-th image from number `part` on, as f32 [n, 1, 28, 28] in [0, 1], and the labels."""
  folder = pathlib.Path(folder)
  images = _read_idx(folder / f"{name}-images-idx3-ubyte")[part::parts]
  labels = _read_idx(folder / f"{name}-labels-idx1-ubyte")[part::parts]
  return (images[:, None] / np.float32(255)).astype(np.float32), labels.astype(np.int64)


def devices_of_round(config):
  """Returns how many devices train in a round. Raises ValueError if secure aggregation needs more."""
  devices, fraction = int(config["devices"]), float(config["fraction"])
  chosen = max(1, round(fraction * devices))
  if config["secure"] and chosen < 3:
    raise ValueError(f"secure aggregation needs 3 devices in a round, but fraction={fraction} of devices={devices} are "
                     f"{chosen}; raise one of them, or set secure=false")
  return chosen


def images_of(node, name):
  """Returns the images of a device, which its --node-config describes."""
  return read_images(node["data"], name, int(node["partition-id"]), int(node["num-partitions"]))


def train(session, images, labels, batch, epochs, random):
  """Trains for whole batches; returns the mean loss and the number of images used in an epoch.

  Raises:
    ValueError: there are fewer images than a batch has.
  """
  losses = []
  count = len(images) // batch * batch
  if count == 0:
    raise ValueError(f"the device has {len(images)} images to train with, but a batch has {batch}; lower batch, or "
                     "give the device more images")
  for _ in range(epochs):
    order = random.permutation(len(images))[:count].reshape(-1, batch)
    for chosen in order:
      _, loss = session.run("train_step", images[chosen], labels[chosen])
      losses.append(float(loss))
  return float(np.mean(losses)), count


def accuracy(session, images, labels, batch):
  """Returns the share of images that are recognized; the last batch may be smaller.

  Raises:
    ValueError: there are no images.
  """
  if len(images) == 0:
    raise ValueError("there are no images to evaluate; have fewer devices, or more images in the t10k files")
  right = 0
  for begin in range(0, len(images), batch):
    scores, = session.run("eval", images[begin:begin + batch])
    right += int((scores.argmax(1) == labels[begin:begin + batch]).sum())
  return right / len(images)
