// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/convolution_copy.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace cotan::cuda {
namespace {

constexpr int64_t kThreads = 256;
constexpr int64_t kUnroll = 4;
constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
constexpr size_t kRank = kSpatialDims + 2;
constexpr size_t kChannelDim = 1;

}  // namespace

absl::string_view ElementName(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return "cotan::float16";
    case DType::kBFloat16:
      return "cotan::bfloat16";
    case DType::kFloat64:
      return "double";
    default:
      return "float";
  }
}

absl::StatusOr<KernelLaunch> MakeConvolutionCopy(DType dtype, const ConvolutionOperand& from,
                                                 const std::optional<ConvolutionOperand>& bias,
                                                 const ConvolutionOperand& to, bool guarded) {
  const DimVector& sizes = to.layout.sizes;
  const int64_t count = NumElements(sizes);
  const int64_t blocks = (count + kThreads * kUnroll - 1) / (kThreads * kUnroll);
  if (blocks > kMaxInt) {
    return absl::UnimplementedError(
        absl::StrCat("a copy of ", count, " elements needs ", blocks, " blocks of threads"));
  }
  // The target's order of dimensions, outermost first.
  std::array<size_t, kRank> order;
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return to.layout.strides[a] > to.layout.strides[b]; });
  const int64_t largest = std::max({count + kThreads * kUnroll, StorageExtent(from.layout), StorageExtent(to.layout)});
  std::string text =
      absl::StrCat("#include \"cotan/convolution_copy.cuh\"\nstruct Shape {\n  using Element = ", ElementName(dtype),
                   ";\n  using Index = ", largest <= kMaxInt ? "int" : "long long", ";\n");
  const auto constant = [&](absl::string_view name, int64_t value) {
    absl::StrAppend(&text, "  static constexpr Index k", name, " = ", value, ";\n");
  };
  constant("Count", count);
  for (size_t d = 0; d < kRank; ++d) {
    const size_t dim = order[d];
    if (d > 0) constant(absl::StrCat("Size", d), sizes[dim]);
    constant(absl::StrCat("From", d), from.layout.strides[dim]);
    constant(absl::StrCat("To", d), to.layout.strides[dim]);
    constant(absl::StrCat("Bias", d), dim == kChannelDim && bias ? bias->layout.strides[0] : 0);
  }
  KernelLaunch launch;
  launch.grid = {static_cast<unsigned>(blocks), 1, 1};
  launch.block = {static_cast<unsigned>(kThreads), 1, 1};
  launch.arguments = {from.argument};
  if (bias) launch.arguments.push_back(bias->argument);
  launch.arguments.push_back(to.argument);
  if (guarded) launch.arguments.push_back(ErrorRecordArgument());
  launch.source.entry = bias ? "convolution_bias" : "convolution_copy";
  launch.source.text =
      absl::StrCat(text, "};\nusing E = Shape::Element;\nextern \"C\" __global__ void __launch_bounds__(", kThreads,
                   ") ", launch.source.entry, "(const E* from", bias ? ", const E* bias" : "", ", E* to",
                   guarded ? ", const cotan::ErrorRecord* record" : "", ") {\n  cotan::WaitForEarlierWork();\n",
                   guarded ? "  COTAN_RETURN_ON_ERROR(record);\n" : "", "  cotan::convolution::CopyWithBias<Shape, ",
                   bias ? "true" : "false", ", ", kUnroll, ">(from, ", bias ? "bias" : "nullptr", ", to);\n}\n");
  return launch;
}

}  // namespace cotan::cuda
