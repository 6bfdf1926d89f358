// SPDX-License-Identifier: Apache-2.0

// Measures a step of an artifact on a device, without LibTorch. See --help.
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "testing/cuda/step_bench.h"
#include "testing/cuda/tool_device.h"
#include "testing/cuda/tool_group.h"

ABSL_FLAG(std::string, artifact, "", "file to run");
ABSL_FLAG(std::string, method, "train_step", "method to run");
ABSL_FLAG(std::string, device, "cuda", "cuda, cuda_sim or cpu");
ABSL_FLAG(bool, tf32, false, "round the operands of f32 products to TF32");
ABSL_FLAG(bool, programmatic_launch, true, "let a kernel begin while the one in front of it ends");
ABSL_FLAG(bool, parallel_branches, true, "let independent ops of a step run at the same time");
ABSL_FLAG(bool, group, false, "run in a group of one rank, which sends data by NCCL on a GPU");
ABSL_FLAG(std::vector<std::string>, inputs, (std::vector<std::string>{"resident", "host"}),
          "where arguments are: resident (on the device), host (copied in each step)");
ABSL_FLAG(int, steps, 1000, "steps to measure");
ABSL_FLAG(int, warmup, 10, "steps before them, at least 1; their losses are printed");
ABSL_FLAG(int, block, 10, "steps between two waits for the device");
ABSL_FLAG(int64_t, max_index, 10, "random integers, of artifacts without recorded runs, are below this number");
ABSL_FLAG(std::string, kernel_cache, "", "folder of kernels that were compiled on this machine; empty: none");
ABSL_FLAG(std::string, label, "", "text for the key \"model\" of the output; empty: the file's name");

namespace cotan::testing {
namespace {

std::string FileName(const std::string& path) {
  const size_t begin = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  return path.substr(begin, path.rfind('.') - begin);
}

absl::Status Run() {
  StepBenchOptions options;
  options.artifact = absl::GetFlag(FLAGS_artifact);
  options.method = absl::GetFlag(FLAGS_method);
  options.steps = absl::GetFlag(FLAGS_steps);
  options.warmup = absl::GetFlag(FLAGS_warmup);
  options.block = absl::GetFlag(FLAGS_block);
  options.max_index = absl::GetFlag(FLAGS_max_index);
  if (options.artifact.empty()) return absl::InvalidArgumentError("--artifact is missing");
  COTAN_ASSIGN_OR_RETURN(const ToolDevice device,
                         ToolDevice::Open({.name = absl::GetFlag(FLAGS_device),
                                           .tf32 = absl::GetFlag(FLAGS_tf32),
                                           .programmatic_launch = absl::GetFlag(FLAGS_programmatic_launch),
                                           .parallel_branches = absl::GetFlag(FLAGS_parallel_branches),
                                           .kernel_cache = absl::GetFlag(FLAGS_kernel_cache)}));
  std::unique_ptr<ToolGroup> group;
  if (absl::GetFlag(FLAGS_group)) {
    COTAN_ASSIGN_OR_RETURN(group, ToolGroup::Create(device));
    options.communicator = &group->communicator();
  }
  const std::string label = absl::GetFlag(FLAGS_label);
  for (const std::string& inputs : absl::GetFlag(FLAGS_inputs)) {
    if (inputs != "resident" && inputs != "host") {
      return absl::InvalidArgumentError(absl::StrCat("--inputs: '", inputs, "' is neither resident nor host"));
    }
    options.host_arguments = inputs == "host";
    COTAN_ASSIGN_OR_RETURN(const StepBenchResult result, BenchSteps(device, options));
    std::cout << ToJson(options, result,
                        {{"side", "cotan"},
                         {"model", label.empty() ? FileName(options.artifact) : label},
                         {"device", absl::GetFlag(FLAGS_device)},
                         {"launches", absl::GetFlag(FLAGS_programmatic_launch) ? "programmatic" : "plain"},
                         {"branches", absl::GetFlag(FLAGS_parallel_branches) ? "parallel" : "none"},
                         {"products", absl::GetFlag(FLAGS_tf32) ? "tf32" : "ieee"}})
              << std::endl;
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Measures steps of an artifact and prints one JSON object per kind of inputs. Example:\n"
      "  bench --artifact=gpt.cotan --device=cuda --steps=1000");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = cotan::testing::Run();
  if (status.ok()) return 0;
  std::cerr << "bench: " << status << "\n";
  return 1;
}
