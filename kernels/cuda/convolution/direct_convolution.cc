// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/convolution/direct_convolution.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/rounding.h"
#include "base/status_macros.h"
#include "kernels/cuda/convolution/convolution_copy.h"
#include "kernels/cuda/convolution/convolution_problem.h"

namespace cotan::cuda {
namespace {

using Product = ConvolutionProduct;

constexpr int64_t kThreads = 256;  // of every kernel
constexpr int64_t kMaxInt = std::numeric_limits<int32_t>::max();
// Above all sizes of tiles: indices of a tile that is partly outside of the operands fit the index type, too.
constexpr int64_t kIndexSlack = 1024;
// Tiles that keep a GPU busy. A constant, so that results do not depend on the device.
constexpr int64_t kManyTiles = 264;
// Steps of a part of a long sum, at least, and parts at most.
constexpr int64_t kMinPartSteps = 512;
constexpr int64_t kMaxParts = 64;
// Fewer columns (rows of kBackwardWeights) per group than this leave most of a tile empty.
constexpr int64_t kFewPerGroup = 4;

// The sizes of a block's tile and of its arrangement of threads.
struct Tile {
  int64_t rows, columns, steps, row_threads, column_threads;
};

Tile ChooseTile(const ConvolutionProblem& problem) {
  const int64_t rows = problem.Rows();
  const int64_t columns = problem.Columns();
  if (columns <= 16) return {128, 16, 16, 32, 8};
  if (columns <= 32) return {128, 32, 16, 32, 8};
  const int64_t large_tiles = CeilDiv(rows, 128) * CeilDiv(columns, 128) * problem.groups;
  const bool is_large = columns > 64 && large_tiles >= kManyTiles && problem.dtype != DType::kFloat64;
  return is_large ? Tile{128, 128, 8, 16, 16} : Tile{64, 64, 16, 16, 16};
}

// Returns whether channels of `layout` are nearer to each other in memory than pixels.
bool ChannelsAreInner(const StridedLayout& layout) {
  int64_t spatial_stride = std::numeric_limits<int64_t>::max();
  for (size_t d = 2; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] > 1) spatial_stride = std::min(spatial_stride, layout.strides[d]);
  }
  return layout.sizes[1] > 1 && layout.strides[1] < spatial_stride;
}

// Writes the kernels of a problem.
class DirectPlanner {
 public:
  DirectPlanner(const ConvolutionProblem& problem, bool guarded) : problem_(problem), guarded_(guarded) {}

  absl::StatusOr<KernelPlan> Plan() {
    if (NumElements(problem_.Result().layout.sizes) == 0) return KernelPlan();
    const bool is_gradient_of_weights = problem_.product == Product::kBackwardWeights;
    if (is_gradient_of_weights && problem_.Rows() <= kFewPerGroup) {
      COTAN_RETURN_IF_ERROR(AddBlockProduct());
    } else if (!is_gradient_of_weights && problem_.Columns() <= kFewPerGroup) {
      COTAN_RETURN_IF_ERROR(AddThreadProduct());
    } else {
      COTAN_RETURN_IF_ERROR(AddTiledProduct());
    }
    return std::move(plan_);
  }

 private:
  absl::Status AddBlockProduct() {
    return AddLaunch("convolution_blocks", NumResults(), absl::StrCat("BlockProduct<P, ", kThreads, ">(p);"),
                     /*writes_result=*/true);
  }

  absl::Status AddThreadProduct() {
    return AddLaunch("convolution_threads", CeilDiv(NumResults(), kThreads),
                     absl::StrCat("ThreadProduct<P, ", Bool(ChannelsAreInner(problem_.Result().layout)), ">(p);"),
                     /*writes_result=*/true);
  }

  absl::Status AddTiledProduct() {
    const Tile tile = ChooseTile(problem_);
    const int64_t tiles =
        CeilDiv(problem_.Rows(), tile.rows) * CeilDiv(problem_.Columns(), tile.columns) * problem_.groups;
    const int64_t steps = problem_.Steps();
    int64_t parts = 1;
    if (problem_.product == Product::kBackwardWeights) {
      parts = std::clamp<int64_t>(std::min(CeilDiv(kManyTiles, tiles), steps / kMinPartSteps), 1, kMaxParts);
    }
    const int64_t part_steps = CeilDiv(CeilDiv(std::max<int64_t>(steps, 1), parts), tile.steps) * tile.steps;
    parts = CeilDiv(std::max<int64_t>(steps, 1), part_steps);
    const bool is_split = parts > 1;
    const std::string body =
        absl::StrCat("using T = Tiling<", tile.rows, ", ", tile.columns, ", ", tile.steps, ", ", tile.row_threads, ", ",
                     tile.column_threads, ", ", Bool(RowsOfAAreInner()), ", ", Bool(ColumnsOfBAreInner()), ", ",
                     Bool(is_split || ColumnsOfResultAreInner()), ">;\n  TiledProduct<T, P, ", parts, ", ", part_steps,
                     ">(p, ", is_split ? "partial" : "nullptr", ");");
    if (!is_split) return AddLaunch("convolution_tiles", tiles, body, /*writes_result=*/true);
    partial_elements_ = parts * NumResults();
    plan_.scratch_bytes = static_cast<size_t>(partial_elements_) * (problem_.dtype == DType::kFloat64 ? 8 : 4);
    COTAN_RETURN_IF_ERROR(AddLaunch("convolution_parts", tiles * parts, body, /*writes_result=*/false));
    return AddLaunch("convolution_sum", CeilDiv(NumResults(), kThreads),
                     absl::StrCat("SumParts<P, ", parts, ">(p, partial);"), /*writes_result=*/true);
  }

  // Appends a launch of a kernel with `body`.
  absl::Status AddLaunch(absl::string_view entry, int64_t blocks, const std::string& body, bool writes_result) {
    if (blocks > kMaxInt) {
      return absl::UnimplementedError(absl::StrCat("a convolution with a result of sizes ",
                                                   ToString(problem_.Result().layout), " needs ", blocks,
                                                   " blocks of threads; CUDA allows ", kMaxInt));
    }
    KernelLaunch launch;
    launch.grid = {static_cast<unsigned>(blocks), 1, 1};
    launch.block = {static_cast<unsigned>(kThreads), 1, 1};
    std::string parameters;
    const auto add = [&](absl::string_view type, absl::string_view name, const KernelArgument& argument) {
      absl::StrAppend(&parameters, parameters.empty() ? "" : ", ", type, " ", name);
      launch.arguments.push_back(argument);
    };
    const auto [a, b] = Sources();
    add("const E*", "a", a.argument);
    add("const E*", "b", b.argument);
    if (problem_.bias) add("const E*", "bias", problem_.bias->argument);
    if (writes_result) add("E*", "result", problem_.Result().argument);
    if (partial_elements_ > 0) add(writes_result ? "const P::Sum*" : "P::Sum*", "partial", ScratchArgument(0));
    const bool is_guarded = guarded_ && writes_result;
    if (is_guarded) add("const cotan::ErrorRecord*", "record", ErrorRecordArgument());
    launch.source.entry = std::string(entry);
    launch.source.text = absl::StrCat(
        "#include \"cotan/convolution_product.cuh\"\n", ShapeText(), "using namespace cotan::convolution;\n",
        "using E = Shape::Element;\nusing P = ", ProductName(), "<Shape>;\n", "extern \"C\" __global__ void ",
        "__launch_bounds__(", kThreads, ") ", entry, "(", parameters, ") {\n  cotan::WaitForEarlierWork();\n",
        is_guarded ? "  COTAN_RETURN_ON_ERROR(record);\n" : "", "  const P p = {{a, b, ",
        problem_.bias ? "bias" : "nullptr", ", ", writes_result ? "result" : "nullptr", "}};\n  ", body, "\n}\n");
    plan_.steps.push_back(std::move(launch));
    return absl::OkStatus();
  }

  // Returns the constants of the geometry (kernels/cuda/source/convolution.cuh).
  std::string ShapeText() const {
    std::string text = absl::StrCat("struct Shape {\n  using Element = ", ElementName(problem_.dtype),
                                    ";\n  using Index = ", FitsInt() ? "int" : "long long", ";\n");
    const auto constant = [&](absl::string_view name, int64_t value) {
      absl::StrAppend(&text, "  static constexpr Index k", name, " = ", value, ";\n");
    };
    const auto strides = [&](absl::string_view name, absl::string_view first, absl::string_view second,
                             const StridedLayout& layout) {
      constant(absl::StrCat(name, first), layout.strides[0]);
      constant(absl::StrCat(name, second), layout.strides[1]);
      for (size_t d = 0; d < kSpatialDims; ++d) constant(absl::StrCat(name, "S", d), layout.strides[d + 2]);
    };
    constant("Batch", problem_.wide.layout.sizes[0]);
    constant("Groups", problem_.groups);
    constant("WideChannels", problem_.wide.layout.sizes[1] / problem_.groups);
    constant("NarrowChannels", problem_.narrow.layout.sizes[1] / problem_.groups);
    for (size_t d = 0; d < kSpatialDims; ++d) {
      constant(absl::StrCat("Wide", d), problem_.wide.layout.sizes[d + 2]);
      constant(absl::StrCat("Narrow", d), problem_.narrow.layout.sizes[d + 2]);
      constant(absl::StrCat("Kernel", d), problem_.weights.layout.sizes[d + 2]);
      constant(absl::StrCat("Stride", d), problem_.stride[d]);
      constant(absl::StrCat("Padding", d), problem_.padding[d]);
      constant(absl::StrCat("Dilation", d), problem_.dilation[d]);
    }
    strides("Wide", "N", "C", problem_.wide.layout);
    strides("Narrow", "N", "C", problem_.narrow.layout);
    strides("Weight", "O", "I", problem_.weights.layout);
    constant("Bias", problem_.bias ? problem_.bias->layout.strides[0] : 0);
    absl::StrAppend(&text, "  static constexpr bool kChannelInner = ", Bool(ChannelIsInner()), ";\n};\n");
    return text;
  }

  // The operands A and B of the product.
  std::pair<const ConvolutionOperand&, const ConvolutionOperand&> Sources() const {
    switch (problem_.product) {
      case Product::kForward:
        return {problem_.wide, problem_.weights};
      case Product::kBackwardData:
        return {problem_.narrow, problem_.weights};
      case Product::kBackwardWeights:
        break;
    }
    return {problem_.narrow, problem_.wide};
  }

  bool ChannelIsInner() const {
    const bool is_gradient_of_weights = problem_.product == Product::kBackwardWeights;
    return ChannelsAreInner(is_gradient_of_weights ? problem_.wide.layout : Sources().first.layout);
  }
  // Which index of each matrix follows its memory.
  bool RowsOfAAreInner() const {
    const bool channels_are_rows = problem_.product == Product::kBackwardWeights;
    return ChannelsAreInner(Sources().first.layout) == channels_are_rows;
  }
  bool ColumnsOfBAreInner() const {
    if (problem_.product == Product::kBackwardWeights) return ChannelsAreInner(problem_.wide.layout);
    const StridedLayout& weights = problem_.weights.layout;
    const size_t column = problem_.product == Product::kForward ? 0 : 1;
    const size_t step = 1 - column;
    return weights.sizes[column] > 1 && (weights.sizes[step] == 1 || weights.strides[column] < weights.strides[step]);
  }
  bool ColumnsOfResultAreInner() const {
    return problem_.product == Product::kBackwardWeights || ChannelsAreInner(problem_.Result().layout);
  }

  // Whether all indices and offsets fit 31 bits.
  bool FitsInt() const {
    const auto extent = [](const ConvolutionOperand& operand) { return StorageExtent(operand.layout); };
    int64_t largest = std::max({extent(problem_.wide), extent(problem_.weights), extent(problem_.narrow),
                                problem_.Rows(), problem_.Columns(), problem_.Steps(), NumResults(), partial_elements_,
                                problem_.bias ? extent(*problem_.bias) : 0});
    for (size_t d = 0; d < kSpatialDims; ++d) {
      const int64_t reach = (problem_.narrow.layout.sizes[d + 2] + 1) * problem_.stride[d] +
                            problem_.weights.layout.sizes[d + 2] * problem_.dilation[d];
      largest = std::max({largest, problem_.wide.layout.sizes[d + 2] + problem_.padding[d], reach});
    }
    // Strides of the dimensions that an index beyond the end of a matrix may exceed by a tile.
    const int64_t line = std::max({problem_.wide.layout.strides[0], problem_.wide.layout.strides[1],
                                   problem_.narrow.layout.strides[0], problem_.narrow.layout.strides[1],
                                   problem_.weights.layout.strides[0], problem_.weights.layout.strides[1]});
    return largest <= kMaxInt - kIndexSlack && line <= (kMaxInt - largest) / kIndexSlack;
  }

  int64_t NumResults() const { return problem_.groups * problem_.Rows() * problem_.Columns(); }
  absl::string_view ProductName() const {
    switch (problem_.product) {
      case Product::kForward:
        return "Forward";
      case Product::kBackwardData:
        return "BackwardData";
      case Product::kBackwardWeights:
        break;
    }
    return "BackwardWeights";
  }
  static absl::string_view Bool(bool value) { return value ? "true" : "false"; }

  const ConvolutionProblem& problem_;
  const bool guarded_;
  int64_t partial_elements_ = 0;
  KernelPlan plan_;
};

}  // namespace

absl::StatusOr<KernelPlan> PlanDirectConvolution(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const ConvolutionProblem problem, DescribeConvolution(request));
  return DirectPlanner(problem, request.guarded_outputs).Plan();
}

}  // namespace cotan::cuda
