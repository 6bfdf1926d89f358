# SPDX-License-Identifier: Apache-2.0
"""Records what PyTorch's min-cut partitioner saves for the backward of exported models.

Usage: record_saved_bytes.py OUT.json FOLDER...

Each NAME.pt2 in the folders is traced by aot_module, with the ATen ops as they are and with the decompositions of
Inductor, and cut by min_cut_rematerialization_partition and default_partition. For each cut the file has two counts of
bytes, both without parameters, buffers and views of them:
  tensors:  of all saved tensors
  storages: of the storages that the saved tensors share
Needs a Python with PyTorch, for example `python3 -m venv v && v/bin/pip install torch numpy`; nothing of the build does.
"""

import functools
import json
import pathlib
import sys

import torch
import torch._inductor.lowering  # Its decompositions look it up.
from torch._functorch.aot_autograd import aot_module
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition
from torch._inductor.decomposition import select_decomp_table

PARTITIONS = {
    "min_cut": functools.partial(min_cut_rematerialization_partition, compiler="inductor"),
    "default": default_partition,
}


def Storage(node):
  return node.meta["val"].untyped_storage()._cdata


def SavedBytes(joint, forward, num_outputs, num_states):
  """Counts the bytes of the forward's outputs after the first `num_outputs`."""
  placeholders = [node for node in joint.graph.nodes if node.op == "placeholder"]
  states = {Storage(node) for node in placeholders[:num_states]}
  (output,) = [node for node in forward.graph.nodes if node.op == "output"]
  tensors = 0
  storages = {}
  for node in output.args[0][num_outputs:]:
    value = node.meta["val"]
    if not isinstance(value, torch.Tensor) or Storage(node) in states:
      continue
    tensors += value.numel() * value.element_size()
    storages[Storage(node)] = value.untyped_storage().nbytes()
  return {"tensors": tensors, "storages": sum(storages.values())}


def Record(path, partition, decompositions):
  """Returns the counts of one model under one partition."""
  program = torch.export.load(path)
  module = program.module()
  num_states = len(list(module.parameters())) + len(list(module.buffers()))
  record = {}

  def Cut(joint, inputs, *, num_fwd_outputs, **kwargs):
    forward, backward = partition(joint, inputs, num_fwd_outputs=num_fwd_outputs, **kwargs)
    record.update(SavedBytes(joint, forward, num_fwd_outputs, num_states))
    return forward, backward

  compiled = aot_module(module, fw_compiler=lambda graph, _: graph, bw_compiler=lambda graph, _: graph,
                        partition_fn=Cut, decompositions=decompositions)
  arguments, _ = program.example_inputs
  compiled(*arguments)
  return record


def main():
  out, *folders = sys.argv[1:]
  models = {}
  for path in sorted(path for folder in folders for path in pathlib.Path(folder).glob("*.pt2")):
    entry = models.setdefault(path.stem, {})
    for name, partition in PARTITIONS.items():
      for suffix, decompositions in (("", None), ("_inductor", select_decomp_table())):
        try:
          entry[name + suffix] = Record(path, partition, decompositions)
        except Exception as error:  # A model that PyTorch cannot trace has no counts, and the reason instead.
          entry[name + suffix] = {"error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    print(path.stem, json.dumps(entry), flush=True)
  with open(out, "w", encoding="utf-8") as file:
    json.dump({"torch": torch.__version__, "models": models}, file, indent=1, sort_keys=True)
    file.write("\n")


if __name__ == "__main__":
  main()
