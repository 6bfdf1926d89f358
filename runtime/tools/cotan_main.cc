// SPDX-License-Identifier: Apache-2.0

// The cotan tool with the CPU backend.
#include <iostream>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/version.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/tools/commands.h"

namespace {

absl::StatusOr<cotan::tools::Backend> Open(absl::string_view device) {
  if (device == "cpu") return cotan::tools::Backend{.kernels = &cotan::CpuKernels()};
  return absl::InvalidArgumentError(absl::StrCat("--device=", device, ": known are cpu and cuda"));
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
  const absl::Status status = cotan::tools::RunCommand(arguments, Open, std::cout);
  if (status.ok()) return 0;
  std::cerr << "cotan: " << status.message() << "\n";
  return 1;
}
