// SPDX-License-Identifier: Apache-2.0

// Measures the steps of an artifact on one device.
#ifndef COTAN_TESTING_CUDA_STEP_BENCH_H_
#define COTAN_TESTING_CUDA_STEP_BENCH_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/communicator.h"
#include "testing/cuda/tool_device.h"

namespace cotan::testing {

struct StepBenchOptions {
  std::string artifact;  // path
  std::string method = "train_step";
  int steps = 1000;
  // Steps before those that are measured; each of them is waited for.
  int warmup = 10;
  // The device is waited for, and the loss read, once per block of this many steps.
  int block = 10;
  // Random integers, of methods without recorded runs, are below this number.
  int64_t max_index = 10;
  // False: arguments are on the device from the start. True: each step gets arguments on the host.
  bool host_arguments = false;
  // As SessionOptions::communicator.
  Communicator* communicator = nullptr;
};

struct StepBenchResult {
  int steps = 0;
  // Statistics of the time of a block, divided by its steps.
  double median_us = 0;
  double min_us = 0;
  // Median of the time until Session::Run() returns.
  double host_us = 0;
  // From opening the artifact to the end of the first step; the device is open already.
  double first_step_ms = 0;
  // Losses of the warm-up steps; empty if the last result is not one f32.
  std::vector<float> losses;
  int64_t arena_bytes = 0;
  int64_t state_bytes = 0;
  int plan_steps = 0;
  // By which the use of the GPU's memory has grown at the end; no value if the device is not a GPU.
  std::optional<int64_t> gpu_bytes;
  // Nodes of the graph that a step launches; no value unless the device is a simulated GPU.
  std::optional<int64_t> graph_nodes;
};

// Runs the method with its recorded arguments, or random ones if none are recorded.
// NotFound: there is no such file or method. Errors of Program and Session.
absl::StatusOr<StepBenchResult> BenchSteps(const ToolDevice& device, const StepBenchOptions& options);

// Returns one line of JSON with the options, `labels` (text by key) and the result; keys are the fields' names.
std::string ToJson(const StepBenchOptions& options, const StepBenchResult& result,
                   const std::vector<std::pair<std::string, std::string>>& labels);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_CUDA_STEP_BENCH_H_
