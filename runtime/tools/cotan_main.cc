// SPDX-License-Identifier: Apache-2.0

// The cotan tool with the CPU and CUDA backends.
#include <iostream>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/cuda/open_cuda_device.h"
#include "kernels/cuda/register_cuda.h"
#include "runtime/tools/commands.h"
#include "runtime/tools/external_command.h"

namespace {

absl::StatusOr<cotan::tools::Backend> Open(absl::string_view name) {
  if (name == "cpu") return cotan::tools::Backend{.kernels = &cotan::CpuKernels()};
  if (name != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat("--device=", name, ": known are cpu and cuda"));
  }
  // Lives until the process ends.
  static const absl::StatusOr<std::unique_ptr<cotan::Device>>& gpu =
      *new absl::StatusOr<std::unique_ptr<cotan::Device>>(cotan::OpenCudaDevice());
  COTAN_RETURN_IF_ERROR(gpu.status());
  return cotan::tools::Backend{.kernels = &cotan::CudaKernels(), .device = gpu->get()};
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Span<const char* const> arguments(argv + (argc > 0 ? 1 : 0),
                                                static_cast<size_t>(argc > 0 ? argc - 1 : 0));
  if (arguments.empty() || std::string_view(arguments[0]) == "--help") {
    std::cout << cotan::tools::Usage();
    return arguments.empty() ? 2 : 0;
  }
  if (std::string_view(arguments[0]) == "--version") {
    std::cout << "cotan " << cotan::kVersion << "\n";
    return 0;
  }
  if (arguments[0][0] != '-' && !cotan::tools::IsCommand(arguments[0])) {
    std::cerr << "cotan: " << cotan::tools::RunExternalCommand(arguments).message() << "\n";
    return 1;
  }
  const absl::Status status = cotan::tools::RunCommand(arguments, Open, std::cout);
  if (status.ok()) return 0;
  std::cerr << "cotan: " << status.message() << "\n";
  return cotan::tools::ExitStatus(arguments, status);
}
