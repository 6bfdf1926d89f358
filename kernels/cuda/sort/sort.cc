// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sort/sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/copy/kernel_text.h"
#include "kernels/cuda/copy/loop_nest.h"

namespace cotan::cuda {
namespace {

constexpr int64_t kPerThread = 8;  // as in sort.cuh
constexpr int64_t kThreads = 256;
constexpr int64_t kMostThreads = 512;
constexpr int64_t kLongestLine = (int64_t{1} << 32) - 1;
// Indexes of 16 bits, the largest of which is not used.
constexpr int64_t kShortLine = (int64_t{1} << 16) - 1;

// The lines of a sort. Strides are those of input, values and indexes, in elements.
struct Geometry {
  int64_t length = 0;  // of an input's line
  int64_t count = 0;   // of an output's line
  std::array<int64_t, 3> step{};
  LoopNest lines{{}};
  bool lines_inner = false;  // the elements of a line lie farther apart than neighbouring lines
  int64_t item_bytes = 8;
  int64_t largest_tile = 0;
};

Geometry GeometryOf(const KernelRequest& request) {
  const auto dim = static_cast<size_t>(request.op.sort().dim());
  const StridedLayout* layouts[] = {&request.inputs[0].layout, &request.outputs[0].layout, &request.outputs[1].layout};
  Geometry g;
  g.length = layouts[0]->sizes[dim];
  g.count = layouts[1]->sizes[dim];
  std::vector<LoopDim> dims;
  for (size_t d = 0; d < layouts[0]->sizes.size(); ++d) {
    LoopDim loop = {layouts[0]->sizes[d]};
    for (size_t k = 0; k < 3; ++k) {
      loop.strides.push_back(layouts[k]->strides[d]);
      if (d == dim) g.step[k] = layouts[k]->strides[d];
    }
    if (d != dim) dims.push_back(std::move(loop));
  }
  g.lines = LoopNest(dims);
  g.lines.Simplify(0);
  for (const LoopDim& loop : g.lines.dims()) {
    if (loop.strides[0] > 0 && loop.strides[0] < g.step[0]) g.lines_inner = true;
  }
  const size_t bytes = ByteSize(request.inputs[0].dtype);
  g.item_bytes = bytes == 8 ? 16 : bytes < 4 && g.length <= kShortLine ? 4 : 8;
  g.largest_tile = bytes == 8 ? 2048 : 4096;
  return g;
}

// A launch: sorts tiles, or merges pairs of runs.
struct Step {
  bool merges = false;
  int64_t items = 0;  // of a line
  int64_t size = 0;   // of a tile, or of a run
  int64_t keep = 0;   // of each result
  int64_t threads = kThreads;
  int64_t blocks = 0;

  int64_t results() const { return CeilDiv(items, merges ? 2 * size : size); }
  // Returns the items that a line has afterwards.
  int64_t left() const {
    const int64_t whole = merges ? 2 * size : size;
    return (results() - 1) * keep + std::min(keep, items - (results() - 1) * whole);
  }
};

Step TileStep(const Geometry& g, int64_t items, bool lines_inner) {
  Step step = {.items = items};
  step.size =
      std::min(g.largest_tile, std::max(kPerThread, static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(items)))));
  step.keep = std::min(step.size, g.count);
  // More threads have more neighbouring lines.
  step.threads = std::max(kThreads, step.size / kPerThread);
  if (lines_inner && g.item_bytes <= 8) step.threads = kMostThreads;
  step.blocks = CeilDiv(g.lines.count() * step.results(), step.threads * kPerThread / step.size);
  return step;
}

Step MergeStep(const Geometry& g, int64_t items, int64_t run) {
  Step step = {.merges = true, .items = items, .size = run};
  step.keep = std::min(2 * run, g.count);
  step.blocks = g.lines.count() * step.results() * CeilDiv(step.keep, step.threads * kPerThread);
  return step;
}

// Returns the launches of a sort. Tiles that keep few items leave a small part of a line, which is sorted again.
std::vector<Step> StepsOf(const Geometry& g) {
  std::vector<Step> steps = {TileStep(g, g.length, g.lines_inner)};
  while (steps.back().results() > 1) {
    const Step& last = steps.back();
    const bool keeps_few = 4 * g.count <= g.largest_tile;
    steps.push_back(keeps_few ? TileStep(g, last.left(), false) : MergeStep(g, last.left(), last.keep));
  }
  return steps;
}

std::string KeyText(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  const bool is_signed = dtype != DType::kBool && dtype != DType::kUInt8;
  absl::string_view infinity = "0";
  if (dtype == DType::kFloat16) infinity = "0x7c00";
  if (dtype == DType::kBFloat16) infinity = "0x7f80";
  if (dtype == DType::kFloat32) infinity = "0x7f800000u";
  if (dtype == DType::kFloat64) infinity = "0x7ff0000000000000ull";
  return absl::StrCat("cotan::sort::OrderedKey<", WordTypeName(ByteSize(dtype)), ", ", is_signed ? "true" : "false",
                      ", ", infinity, ", ", request.op.sort().descending() ? "true" : "false", ">");
}

absl::string_view ItemText(const Geometry& g) {
  if (g.item_bytes == 16) return "cotan::sort::WideItem";
  return g.item_bytes == 8 ? "cotan::sort::PackedItem<cotan::uint64, 32>"
                           : "cotan::sort::PackedItem<cotan::uint32, 16>";
}

absl::string_view IndexText(const Geometry& g) {
  int64_t largest = std::max(g.lines.count() * (g.length + 2 * g.largest_tile), 2 * g.length);
  for (size_t k = 0; k < 3; ++k) {
    largest = std::max(largest, g.lines.Extent(k) + (g.length + g.largest_tile) * std::max<int64_t>(1, g.step[k]));
  }
  return IndexTypeFor(largest);
}

// Returns the definitions of the sort, S, and of one of its steps, L.
std::string DefinitionText(const KernelRequest& request, const Geometry& g, const Step& step, bool is_first,
                           bool is_last) {
  std::string text = absl::StrCat("struct S {\n  using Key = ", KeyText(request), ";\n  using Item = ", ItemText(g),
                                  ";\n  using Index = ", IndexText(g), ";\n  using Lines = ", g.lines.Text(), ";\n");
  const auto constant = [&](absl::string_view type, absl::string_view name, int64_t value) {
    absl::StrAppend(&text, "  static constexpr ", type, " ", name, " = ", value, ";\n");
  };
  constant("long long", "kInputStep", g.step[0]);
  constant("long long", "kValuesStep", g.step[1]);
  constant("long long", "kIndexesStep", g.step[2]);
  absl::StrAppend(&text, "};\nstruct L {\n");
  constant("bool", "kFromInput", is_first ? 1 : 0);
  constant("bool", "kToOutput", is_last ? 1 : 0);
  constant("long long", "kLines", g.lines.count());
  constant("long long", "kItems", step.items);
  constant("long long", "kToItems", step.left());
  constant("long long", "kKeep", step.keep);
  constant("int", "kThreads", step.threads);
  if (step.merges) {
    constant("long long", "kRun", step.size);
  } else {
    constant("int", "kTile", step.size);
    constant("bool", "kLinesInner", is_first && g.lines_inner ? 1 : 0);
  }
  return absl::StrCat(text, "};\n");
}

// Where the items between launches lie in scratch: two buffers by turns.
struct Buffers {
  int64_t bytes = 0;  // of one
  KernelArgument At(size_t step) const { return ScratchArgument(step % 2 == 0 ? 0 : bytes); }
};

KernelText TextOf(const KernelRequest& request, const Geometry& g, const std::vector<Step>& steps, size_t at,
                  const Buffers& buffers) {
  const Step& step = steps[at];
  const bool is_first = at == 0, is_last = at + 1 == steps.size();
  KernelText kernel = {.entry = step.merges ? "sort_merge" : "sort_tiles", .header = "sort.cuh"};
  kernel.definitions = DefinitionText(request, g, step, is_first, is_last);
  kernel.blocks = step.blocks;
  kernel.threads = static_cast<int>(step.threads);
  kernel.guarded = is_last && request.guarded_outputs;
  const auto parameter = [&](bool present, absl::string_view declaration, const KernelArgument& argument) {
    if (present) kernel.parameters.push_back({std::string(declaration), argument});
  };
  parameter(is_first || is_last, "const S::Key::Bits* input", InputArgument(0));
  parameter(is_last, "S::Key::Bits* values", OutputArgument(0));
  parameter(is_last, "long long* indexes", OutputArgument(1));
  if (!is_first) parameter(true, "const S::Item* from", buffers.At(at - 1));
  parameter(!is_last, "S::Item* to", buffers.At(at));
  const auto operand = [](bool present, absl::string_view name) { return present ? name : "nullptr"; };
  kernel.body = absl::StrCat("  cotan::sort::", step.merges ? "MergeRuns" : "SortTiles", "<S, L>({",
                             operand(is_first || is_last, "input"), ", ", operand(is_last, "values"), ", ",
                             operand(is_last, "indexes"), ", ", operand(!is_first, "from"), ", ",
                             operand(!is_last, "to"), "});\n");
  return kernel;
}

}  // namespace

absl::StatusOr<KernelPlan> PlanSort(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  KernelPlan plan;
  if (NumElements(request.outputs[0].layout.sizes) == 0) return plan;
  const Geometry g = GeometryOf(request);
  if (g.length >= kLongestLine) {
    return absl::UnimplementedError(
        absl::StrCat("sort: the dimension has ", g.length, " elements; at most 2^32 - 2 are supported"));
  }
  const std::vector<Step> steps = StepsOf(g);
  Buffers buffers;
  if (steps.size() > 1) buffers.bytes = CeilDiv(g.lines.count() * steps[0].left() * g.item_bytes, 64) * 64;
  plan.scratch_bytes = static_cast<size_t>(buffers.bytes) * (steps.size() > 2 ? 2 : 1);
  for (size_t at = 0; at < steps.size(); ++at) {
    COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeLaunch(TextOf(request, g, steps, at, buffers)));
    plan.steps.push_back(std::move(launch));
  }
  return plan;
}

}  // namespace cotan::cuda
