// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/patch_convolution.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/convolution/convolution_copy.h"
#include "kernels/cuda/convolution/window_geometry.h"
#include "kernels/cuda/convolution/window_tiling.h"

namespace cotan::cuda {
namespace {

using Product = ConvolutionProduct;

constexpr int64_t kMaxBlocks = std::numeric_limits<int32_t>::max();
// Parts of the gradient of the input, each of which adds code to the kernel.
constexpr size_t kMaxParts = 4;
// Threads of a processor at 128 registers each: blocks of fewer threads share it.
constexpr int64_t kBusyThreads = 512;

// Writes the kernel of a problem.
class PatchPlanner {
 public:
  PatchPlanner(const ConvolutionProblem& problem, bool guarded)
      : problem_(problem), guarded_(guarded), parts_(WindowGeometries(problem)) {}

  std::optional<KernelPlan> Plan() {
    return problem_.product == Product::kBackwardWeights ? PlanWeights() : PlanWindows();
  }

 private:
  std::optional<KernelPlan> PlanWindows() {
    const std::optional<WindowTiling> tiling = ChooseWindowTiling(parts_);
    if (!tiling) return std::nullopt;
    std::string text = absl::StrCat("#include \"cotan/convolution_windows.cuh\"\n");
    for (size_t i = 0; i < parts_.size(); ++i) absl::StrAppend(&text, GeometryText(parts_[i], absl::StrCat("Part", i)));
    absl::StrAppend(&text, "using namespace cotan::convolution;\nusing T = WindowTiling<", tiling->Text(),
                    ">;\nusing E = Part0::Element;\n");
    std::string body = "  int block = static_cast<int>(blockIdx.x);\n";
    int64_t blocks = 0, shared_bytes = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      const std::string kernel = absl::StrCat("Windows<Part", i, ", T>");
      const std::string run =
          absl::StrCat(kernel, "{a, b, ", problem_.bias ? "bias" : "nullptr", ", result}.Run(block, shared);\n");
      const bool is_last = i + 1 == parts_.size();
      absl::StrAppend(&body, "  ", is_last ? "" : absl::StrCat("if (block < ", kernel, "::kBlocks) return "), run);
      if (!is_last) absl::StrAppend(&body, "  block -= ", kernel, "::kBlocks;\n");
      blocks += tiling->NumBlocks(parts_[i]);
      shared_bytes = std::max(shared_bytes, tiling->SharedBytes(parts_[i]));
    }
    return MakePlan("convolution_windows", std::move(text), body, blocks, tiling->NumThreads(), shared_bytes);
  }

  std::optional<KernelPlan> PlanWeights() {
    const WindowGeometry& geometry = parts_[0];
    const std::optional<WeightTiling> tiling = ChooseWeightTiling(geometry);
    if (!tiling) return std::nullopt;
    const int64_t tiles = tiling->NumTiles(geometry);
    is_split_ = tiling->splits > 1;
    plan_.scratch_bytes = static_cast<size_t>(tiling->NumPartialElements(geometry)) * ByteSize(problem_.dtype);
    std::string text =
        absl::StrCat("#include \"cotan/convolution_weights.cuh\"\n", GeometryText(geometry, "Shape"),
                     "using namespace cotan::convolution;\nusing K = WeightGradient<Shape, WeightTiling<",
                     tiling->Text(), ">>;\nusing E = Shape::Element;\n");
    if (is_split_) absl::StrAppend(&text, "__device__ cotan::uint32 counters[", tiles, "];\n");
    return MakePlan("convolution_weights", std::move(text),
                    absl::StrCat("  K{b, a, result, ", is_split_ ? "partial, counters" : "nullptr, nullptr",
                                 "}.Run(static_cast<int>(blockIdx.x), shared);\n"),
                    tiles * tiling->splits, tiling->NumThreads(geometry), tiling->SharedBytes(geometry));
  }

  // Returns the plan of one launch. `body` uses the operands a (wide or narrow) and b, and `shared`.
  std::optional<KernelPlan> MakePlan(absl::string_view entry, std::string text, const std::string& body, int64_t blocks,
                                     int64_t threads, int64_t shared_bytes) {
    if (blocks > kMaxBlocks) return std::nullopt;
    KernelLaunch launch;
    launch.grid = {static_cast<unsigned>(blocks), 1, 1};
    launch.block = {static_cast<unsigned>(threads), 1, 1};
    launch.dynamic_shared_bytes = static_cast<unsigned>(shared_bytes);
    std::string parameters;
    const auto add = [&](absl::string_view parameter, const KernelArgument& argument) {
      absl::StrAppend(&parameters, parameters.empty() ? "" : ", ", parameter);
      launch.arguments.push_back(argument);
    };
    const bool is_gradient_of_weights = problem_.product == Product::kBackwardWeights;
    add("const E* a", problem_.product == Product::kForward ? problem_.wide.argument : problem_.narrow.argument);
    add("const E* b", is_gradient_of_weights ? problem_.wide.argument : problem_.weights.argument);
    if (problem_.bias) add("const E* bias", problem_.bias->argument);
    add("E* result", problem_.Result().argument);
    if (is_split_) add("E* partial", ScratchArgument(0));
    if (guarded_) add("const cotan::ErrorRecord* record", ErrorRecordArgument());
    launch.source.entry = std::string(entry);
    if (is_split_) launch.shared_variable = "counters";
    absl::StrAppend(&text, "extern \"C\" __global__ void __launch_bounds__(", threads, ", ",
                    std::max<int64_t>(1, kBusyThreads / threads), ") ", entry, "(", parameters,
                    ") {\n  cotan::WaitForEarlierWork();\n", guarded_ ? "  COTAN_RETURN_ON_ERROR(record);\n" : "",
                    "  extern __shared__ __align__(16) unsigned char bytes[];\n"
                    "  E* const shared = reinterpret_cast<E*>(bytes);\n",
                    body, "}\n");
    launch.source.text = std::move(text);
    plan_.steps.push_back(std::move(launch));
    return std::move(plan_);
  }

  const ConvolutionProblem& problem_;
  const bool guarded_;
  const std::vector<WindowGeometry> parts_;
  bool is_split_ = false;
  KernelPlan plan_;
};

}  // namespace

bool TakesPatchConvolution(const ConvolutionProblem& problem) {
  return HasWindowGeometry(problem) && WindowGeometries(problem).size() <= kMaxParts;
}

std::optional<KernelPlan> PlanPatchConvolution(const ConvolutionProblem& problem, bool guarded) {
  if (!TakesPatchConvolution(problem)) return std::nullopt;
  return PatchPlanner(problem, guarded).Plan();
}

}  // namespace cotan::cuda
