// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/launch.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace cotan::cuda::ptx {
namespace {

constexpr std::array<uint64_t, 3> kMaxGrid = {2147483647, 65535, 65535};
constexpr std::array<uint64_t, 3> kMaxBlock = {1024, 1024, 64};
constexpr uint64_t kMaxThreads = 1024;
constexpr char kAxes[] = "xyz";
constexpr int64_t kMaxResidentBytes = int64_t{1} << 30;  // of registers, and of shared and local memory

}  // namespace

// From the table "Technical Specifications per Compute Capability" of the CUDA C++ Programming Guide.
int64_t MaxSharedBytes(int compute_capability) {
  switch (compute_capability) {
    case 80:
    case 87:
      return 163 * 1024;
    case 90:
    case 100:
    case 103:
      return 227 * 1024;
    default:
      return 99 * 1024;
  }
}

int64_t ResidentBlocks(const Program& program, const Launch& launch) {
  if (!program.sleeps) return 1;
  const int64_t blocks = int64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  const int64_t threads = int64_t{launch.block[0]} * launch.block[1] * launch.block[2];
  const auto registers = static_cast<int64_t>(program.module->registers.size());
  const int64_t block_bytes = threads * (registers * static_cast<int64_t>(sizeof(uint64_t)) + program.frame_bytes) +
                              program.static_shared_bytes + launch.dynamic_shared_bytes;
  const int64_t at_once = int64_t{launch.multiprocessors} * program.kernel->min_resident_blocks;
  return std::max<int64_t>(1, std::min({blocks, at_once, kMaxResidentBytes / std::max<int64_t>(1, block_bytes)}));
}

absl::Status CheckLaunch(const Program& program, const Launch& launch) {
  const Function& kernel = *program.kernel;
  const auto error = [&](const auto&... parts) {
    return absl::InvalidArgumentError(absl::StrCat("launch of kernel ", kernel.name, ": ", parts...));
  };
  uint64_t threads = 1;
  for (int i = 0; i < 3; ++i) {
    const std::string axis(1, kAxes[i]);
    if (launch.grid[i] < 1 || launch.grid[i] > kMaxGrid[i]) {
      return error("grid.", axis, " is ", launch.grid[i], ", not within [1, ", kMaxGrid[i], "]");
    }
    if (launch.block[i] < 1 || launch.block[i] > kMaxBlock[i]) {
      return error("block.", axis, " is ", launch.block[i], ", not within [1, ", kMaxBlock[i], "]");
    }
    if (kernel.exact_threads[0] != 0 && launch.block[i] != kernel.exact_threads[i]) {
      return error("block.", axis, " is ", launch.block[i], ", but .reqntid says ", kernel.exact_threads[i]);
    }
    threads *= launch.block[i];
  }
  if (threads > kMaxThreads) return error(threads, " threads a block, more than ", kMaxThreads);
  const auto& bound = kernel.max_threads;
  if (bound[0] != 0 && threads > uint64_t{bound[0]} * bound[1] * bound[2]) {
    return error(threads, " threads a block, but .maxntid says ", uint64_t{bound[0]} * bound[1] * bound[2]);
  }
  const int64_t shared = program.static_shared_bytes + launch.dynamic_shared_bytes;
  const int64_t limit = MaxSharedBytes(launch.compute_capability);
  if (launch.dynamic_shared_bytes < 0 || shared > limit) {
    return error(shared, " bytes of shared memory a block, more than the ", limit, " of compute capability ",
                 launch.compute_capability);
  }
  if (static_cast<int64_t>(launch.parameters.size()) != kernel.parameter_bytes) {
    return error(launch.parameters.size(), " bytes of parameters, but the kernel takes ", kernel.parameter_bytes);
  }
  return absl::OkStatus();
}

}  // namespace cotan::cuda::ptx
