# SPDX-License-Identifier: Apache-2.0
"""A device: trains its own copy of the program on its own images. Neither leaves the device, only states do.

`flower-supernode --node-config` has `program`, `data`, and which part of the images the device owns: `partition-id` of
`num-partitions`.
"""

import cotan_runtime as cotan
import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MessageType, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.clientapp.mod import fixedclipping_mod

from digits_federation import secure, task


def _privacy(message: Message, context: Context, call_next):
  """Masks or clips updates as the options of the run say."""
  if context.run_config["secure"]:
    return secure.client(message, context)
  is_training = message.metadata.message_type == MessageType.TRAIN
  if is_training and float(context.run_config["clip"]) > 0:
    return fixedclipping_mod(message, context, call_next)
  return call_next(message, context)


app = ClientApp(mods=[_privacy])


def _session(message, context):
  """Returns a session with the states that the server sent."""
  program, version = task.load_program(context.node_config["program"])
  task.check_version(version, message.content["config"]["program"])
  session = cotan.Session(program)
  task.set_arrays(session, {name: array.numpy() for name, array in message.content["arrays"].items()})
  return session


@app.train()
def train(message: Message, context: Context) -> Message:
  session = _session(message, context)
  images, labels = task.images_of(context.node_config, "train")
  config = message.content["config"]
  random = np.random.default_rng([int(context.node_config["partition-id"]), int(config["server-round"])])
  loss, count = task.train(session, images, labels, int(context.run_config["batch"]),
                           int(context.run_config["local-epochs"]), random)
  arrays = ArrayRecord({name: Array(value) for name, value in task.get_arrays(session).items()})
  metrics = MetricRecord({"loss": loss, "num-examples": count})
  return Message(content=RecordDict({"arrays": arrays, "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
  session = _session(message, context)
  images, labels = task.images_of(context.node_config, "t10k")
  share = task.accuracy(session, images, labels, int(context.run_config["batch"]))
  metrics = MetricRecord({"accuracy": share, "num-examples": len(images)})
  return Message(content=RecordDict({"metrics": metrics}), reply_to=message)
