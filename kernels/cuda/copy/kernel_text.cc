// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/copy/kernel_text.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cotan::cuda {
namespace {

constexpr int kRegistersOfProcessor = 65536;

// Returns the arguments of __launch_bounds__: the second, blocks per processor, sets how many registers they may use.
std::string LaunchBounds(const KernelText& kernel) {
  if (kernel.registers == 0) return absl::StrCat(kernel.threads);
  return absl::StrCat(kernel.threads, ", ", std::max(1, kRegistersOfProcessor / (kernel.threads * kernel.registers)));
}

}  // namespace

absl::StatusOr<KernelLaunch> MakeLaunch(const KernelText& kernel) {
  if (kernel.blocks > std::numeric_limits<int32_t>::max()) {
    return absl::UnimplementedError(absl::StrCat("kernel ", kernel.entry, " needs ", kernel.blocks,
                                                 " blocks of threads; CUDA allows 2^31 - 1. Use smaller operands."));
  }
  std::vector<KernelParameter> parameters = kernel.parameters;
  if (kernel.guarded) parameters.push_back({"const cotan::ErrorRecord* guard", ErrorRecordArgument()});
  KernelLaunch launch;
  launch.grid = {static_cast<unsigned>(kernel.blocks), 1, 1};
  launch.block = {static_cast<unsigned>(kernel.threads), 1, 1};
  for (const KernelParameter& parameter : parameters) launch.arguments.push_back(parameter.argument);
  const auto declaration = [](std::string* out, const KernelParameter& parameter) {
    absl::StrAppend(out, parameter.declaration);
  };
  launch.source.entry = kernel.entry;
  launch.source.text =
      absl::StrCat("#include \"cotan/", kernel.header, "\"\n", kernel.definitions,
                   "extern \"C\" __global__ void __launch_bounds__(", LaunchBounds(kernel), ") ", kernel.entry, "(",
                   absl::StrJoin(parameters, ", ", declaration), ") {\n  cotan::WaitForEarlierWork();\n",
                   kernel.guarded ? "  COTAN_RETURN_ON_ERROR(guard);\n" : "", kernel.body, "}\n");
  return launch;
}

absl::string_view ElementTypeName(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return "cotan::uint8";
    case DType::kInt8:
      return "cotan::int8";
    case DType::kInt16:
      return "cotan::int16";
    case DType::kInt32:
      return "cotan::int32";
    case DType::kInt64:
      return "cotan::int64";
    case DType::kFloat16:
      return "cotan::float16";
    case DType::kBFloat16:
      return "cotan::bfloat16";
    case DType::kFloat32:
      return "float";
    case DType::kFloat64:
      return "double";
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E5m2:
    case DType::kUndefined:
    case DType::kComplex64:
    case DType::kComplex128:
      break;
  }
  return "void";
}

absl::string_view WordTypeName(size_t bytes) {
  switch (bytes) {
    case 1:
      return "cotan::uint8";
    case 2:
      return "cotan::uint16";
    case 4:
      return "cotan::uint32";
    case 8:
      return "cotan::uint64";
    default:
      return "uint4";
  }
}

}  // namespace cotan::cuda
