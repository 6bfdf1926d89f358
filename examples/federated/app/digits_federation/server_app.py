# SPDX-License-Identifier: Apache-2.0
"""The server: sends states to the devices, averages what they return, and prints the accuracy of each round."""

import cotan_runtime as cotan
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyClientSideFixedClipping, FedAdam, FedAvg

from digits_federation import secure, task

app = ServerApp()

_STRATEGIES = {"fedavg": (FedAvg, {}), "fedadam": (FedAdam, {"eta": 0.01, "tau": 1e-3})}


def _strategy(config):
  kind, options = _STRATEGIES[config["strategy"]]
  devices, fraction, chosen = int(config["devices"]), float(config["fraction"]), task.devices_of_round(config)
  strategy = kind(fraction_train=fraction, fraction_evaluate=fraction, min_train_nodes=chosen, min_evaluate_nodes=chosen,
                  min_available_nodes=devices, **options)
  if float(config["clip"]) <= 0:
    return strategy
  return DifferentialPrivacyClientSideFixedClipping(strategy, float(config["noise"]), float(config["clip"]), chosen)


@app.main()
def main(grid: Grid, context: Context) -> None:
  config = context.run_config
  program, version = task.load_program(config["program"])
  session = cotan.Session(program)
  images, labels = task.read_images(config["data"], "t10k")

  def evaluate(number, arrays):
    task.set_arrays(session, arrays)
    share = task.accuracy(session, images, labels, int(config["batch"]))
    print(f"round {number}: accuracy {share:.4f}", flush=True)
    return share

  initial = task.get_arrays(session)
  if config["secure"]:
    if config["strategy"] != "fedavg" or float(config["clip"]) > 0:
      raise ValueError("secure aggregation needs strategy='fedavg' and clip=0")
    secure.serve(grid, context, program, version, initial, evaluate)
    return

  def evaluate_record(number, record):
    return MetricRecord({"accuracy": evaluate(number, {name: array.numpy() for name, array in record.items()})})

  record = ArrayRecord({name: Array(value) for name, value in initial.items()})
  _strategy(config).start(grid=grid, initial_arrays=record, num_rounds=int(config["rounds"]),
                          timeout=float(config["round-timeout"]), train_config=ConfigRecord({"program": version}),
                          evaluate_config=ConfigRecord({"program": version}), evaluate_fn=evaluate_record)
