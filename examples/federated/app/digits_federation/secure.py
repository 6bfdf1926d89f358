# SPDX-License-Identifier: Apache-2.0
"""Secure aggregation (SecAgg+): the server sees sums of masked states only, not those of one device.

Flower has the protocol for clients that exchange lists of arrays, in the order of task.shared_states().
"""

import cotan_runtime as cotan
import numpy as np
from flwr.client import NumPyClient
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import ndarrays_to_parameters
from flwr.server import LegacyContext, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.server.workflow import DefaultWorkflow, SecAggPlusWorkflow

from digits_federation import task


class _Client(NumPyClient):

  def __init__(self, context):
    self._config, self._node = context.run_config, context.node_config
    self._program, self._version = task.load_program(self._node["program"])

  def _session(self, parameters, config):
    task.check_version(self._version, config["program"])
    session = cotan.Session(self._program)
    task.set_arrays(session, dict(zip(task.shared_states(self._program), parameters)))
    return session

  def fit(self, parameters, config):
    session = self._session(parameters, config)
    images, labels = task.images_of(self._node, "train")
    random = np.random.default_rng([int(self._node["partition-id"]), int(config["round"])])
    loss, count = task.train(session, images, labels, int(self._config["batch"]), int(self._config["local-epochs"]),
                             random)
    return list(task.get_arrays(session).values()), count, {"loss": loss}

  def evaluate(self, parameters, config):
    session = self._session(parameters, config)
    images, labels = task.images_of(self._node, "t10k")
    share = task.accuracy(session, images, labels, int(self._config["batch"]))
    return 1 - share, len(images), {"accuracy": share}


client = ClientApp(client_fn=lambda context: _Client(context).to_client(), mods=[secaggplus_mod])


def serve(grid, context, program, version, initial, evaluate):
  """Runs the rounds; `evaluate` takes a round's number and arrays by name.

  Raises:
    ValueError: a round has fewer than three devices.
  """
  config = context.run_config
  names, devices, chosen = task.shared_states(program), int(config["devices"]), task.devices_of_round(config)

  def sent(number):
    return {"program": version, "round": number}

  def evaluate_list(number, arrays, _):
    share = evaluate(number, dict(zip(names, arrays)))
    return 1 - share, {"accuracy": share}

  strategy = FedAvg(fraction_fit=float(config["fraction"]), fraction_evaluate=float(config["fraction"]),
                    min_fit_clients=chosen, min_evaluate_clients=chosen, min_available_clients=devices,
                    initial_parameters=ndarrays_to_parameters([initial[name] for name in names]),
                    evaluate_fn=evaluate_list, on_fit_config_fn=sent, on_evaluate_config_fn=sent)
  rounds = ServerConfig(num_rounds=int(config["rounds"]), round_timeout=float(config["round-timeout"]))
  # Any two devices can restore the masks of one that fails.
  secure = SecAggPlusWorkflow(num_shares=3, reconstruction_threshold=2,
                              timeout=float(config["round-timeout"]))
  DefaultWorkflow(fit_workflow=secure)(grid, LegacyContext(context=context, config=rounds, strategy=strategy))
