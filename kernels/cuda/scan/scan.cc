// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/scan/scan.h"

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

using serialization::Scan;

constexpr int64_t kThreads = 256;
// Fewer blocks than this do not use a GPU well.
constexpr int64_t kEnoughBlocks = 256;
// Lines of fewer chunks are not divided: a second launch costs more.
constexpr int64_t kChunksToDivide = 8;

int64_t PowerOfTwo(int64_t at_least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max<int64_t>(1, at_least))));
}

// The lines of a scan, and how threads share them.
struct Geometry {
  int64_t length = 1;
  std::array<int64_t, 3> step{};  // along a line: input, output, indexes; in elements
  LoopNest lines{{}};
  bool is_rows = false;
  // Of rows: see RowScan.
  int64_t vector = 1, lanes = 1, packs = 1, warps = 1;
  // Of columns: see ColumnScan.
  int64_t columns = 1, rows = 8;

  int64_t lines_per_block = 1;
  int64_t chunk = 1;  // positions of a line that a block scans at a time
  int64_t parts = 1, part_length = 1;

  int64_t blocks() const { return CeilDiv(lines.count(), lines_per_block) * parts; }
};

// Returns the number of elements that lie together, in the same order, in all operands.
int64_t VectorOf(const Geometry& g, int64_t max) {
  const auto fits = [&](int64_t vector) {
    if (g.length % vector != 0) return false;
    for (size_t k = 0; k < 3; ++k) {
      if (g.step[k] != 1) return false;
      for (const LoopDim& dim : g.lines.dims()) {
        if (dim.strides[k] % vector != 0) return false;
      }
    }
    return true;
  };
  int64_t vector = 1;
  while (vector * 2 <= max && fits(vector * 2)) vector *= 2;
  return vector;
}

void ShareRows(int64_t max_vector, Geometry& g) {
  g.vector = VectorOf(g, max_vector);
  const int64_t packs = g.length / g.vector;
  g.lanes = std::min<int64_t>(32, PowerOfTwo(packs));
  const int64_t packs_per_lane = CeilDiv(packs, g.lanes);
  g.packs = std::min<int64_t>(4, packs_per_lane);
  g.warps = std::min<int64_t>(8, PowerOfTwo(CeilDiv(packs_per_lane, g.packs)));
  g.lines_per_block = kThreads / (g.lanes * g.warps);
  g.chunk = g.lanes * g.warps * g.packs * g.vector;
}

void ShareColumns(Geometry& g) {
  const int64_t groups = std::min<int64_t>(8, PowerOfTwo(CeilDiv(g.length, g.rows)));
  g.columns = kThreads / groups;
  g.lines_per_block = g.columns;
  g.chunk = groups * g.rows;
}

Geometry GeometryOf(const KernelRequest& request) {
  const auto dim = static_cast<size_t>(request.op.scan().dim());
  const DimVector& sizes = request.inputs[0].layout.sizes;
  const StridedLayout* layouts[] = {&request.inputs[0].layout, &request.outputs[0].layout,
                                    &request.outputs.back().layout};
  Geometry g;
  g.length = sizes[dim];
  std::vector<LoopDim> dims;
  for (size_t d = 0; d < sizes.size(); ++d) {
    LoopDim loop = {sizes[d]};
    for (size_t k = 0; k < 3; ++k) {
      loop.strides.push_back(layouts[k]->strides[d]);
      if (d == dim) g.step[k] = layouts[k]->strides[d];
    }
    if (d != dim) dims.push_back(std::move(loop));
  }
  g.lines = LoopNest(dims);
  g.lines.Simplify(1);
  const std::vector<LoopDim>& lines = g.lines.dims();
  g.is_rows = lines.empty() || lines.back().strides[1] > g.step[1];
  const auto bytes = static_cast<int64_t>(ByteSize(request.inputs[0].dtype));
  if (g.is_rows) {
    // Two indexes are 16 bytes.
    ShareRows(request.outputs.size() > 1 ? 2 : 16 / bytes, g);
  } else {
    ShareColumns(g);
  }
  const int64_t chunks = CeilDiv(g.length, g.chunk);
  const int64_t blocks = g.blocks();
  if (chunks >= kChunksToDivide && blocks < kEnoughBlocks) {
    g.parts = std::min({kThreads, chunks / 4, CeilDiv(2 * kEnoughBlocks, blocks)});
  }
  g.part_length = CeilDiv(chunks, g.parts) * g.chunk;
  g.parts = CeilDiv(g.length, g.part_length);
  return g;
}

std::string FunctionText(const KernelRequest& request, int64_t length) {
  const absl::string_view element = ElementTypeName(request.inputs[0].dtype);
  switch (request.op.scan().function()) {
    case Scan::SUM:
      return absl::StrCat("cotan::scan::Sum<", element, ">");
    case Scan::PROD:
      return absl::StrCat("cotan::scan::Product<", element, ">");
    case Scan::LOGSUMEXP:
      return absl::StrCat("cotan::scan::LogSumExp<", element, ">");
    default: {
      const bool max = request.op.scan().function() == Scan::MAX;
      // As wide as the values, so that a state has no padding.
      const absl::string_view position =
          ByteSize(request.inputs[0].dtype) == 8 ? "cotan::uint64" : IndexTypeFor(length);
      return absl::StrCat("cotan::scan::Extreme<", element, ", ", position, ", ", max ? "true" : "false", ">");
    }
  }
}

// Returns the definition of the scan, a type S.
std::string DefinitionText(const KernelRequest& request, const Geometry& g) {
  int64_t largest = g.lines.count() + kThreads;
  for (size_t k = 0; k < 3; ++k) {
    largest = std::max(largest, g.lines.Extent(k) + (g.length + g.chunk) * std::max<int64_t>(1, g.step[k]));
  }
  largest = std::max(largest, g.lines.count() * g.parts);
  const absl::string_view index = IndexTypeFor(largest);
  std::string text = absl::StrCat(
      "struct S {\n  using Element = ", ElementTypeName(request.inputs[0].dtype), ";\n  using Index = ", index,
      ";\n  using Function = ", FunctionText(request, g.length), ";\n  using Lines = ", g.lines.Text(), ";\n");
  const auto constant = [&](absl::string_view type, absl::string_view name, int64_t value) {
    absl::StrAppend(&text, "  static constexpr ", type, " ", name, " = ", value, ";\n");
  };
  constant("bool", "kHasIndexes", request.outputs.size() > 1 ? 1 : 0);
  constant("bool", "kReverse", request.op.scan().reverse() ? 1 : 0);
  constant("long long", "kLength", g.length);
  constant("long long", "kLines", g.lines.count());
  constant("long long", "kInputStep", g.step[0]);
  constant("long long", "kOutputStep", g.step[1]);
  constant("long long", "kIndexesStep", g.step[2]);
  constant("long long", "kPartLength", g.part_length);
  constant("int", "kParts", g.parts);
  if (g.is_rows) {
    constant("int", "kVector", g.vector);
    constant("int", "kLanes", g.lanes);
    constant("int", "kPacks", g.packs);
    constant("int", "kWarps", g.warps);
  } else {
    constant("int", "kColumns", g.columns);
    constant("int", "kRows", g.rows);
  }
  return absl::StrCat(text, "};\n");
}

// Returns the bytes of the state of a part: see Function::State.
int64_t StateBytes(const KernelRequest& request) { return request.outputs.size() > 1 ? 16 : 8; }

absl::Status Validate(const KernelRequest& request) {
  const DType dtype = request.inputs[0].dtype;
  if (ElementTypeName(dtype) == "void" || dtype == DType::kBool) {
    return absl::UnimplementedError(absl::StrCat("scan: dtype ", DTypeName(dtype), " is not supported"));
  }
  if (request.op.scan().function() == Scan::LOGSUMEXP && !IsFloatingPoint(dtype)) {
    return absl::UnimplementedError(absl::StrCat("scan: function LOGSUMEXP does not support dtype ", DTypeName(dtype)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<KernelPlan> PlanScan(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  COTAN_RETURN_IF_ERROR(Validate(request));
  KernelPlan plan;
  if (NumElements(request.inputs[0].layout.sizes) == 0) return plan;
  const Geometry g = GeometryOf(request);
  const absl::string_view kind = g.is_rows ? "Rows" : "Columns";
  const std::string definition = DefinitionText(request, g);
  const std::string const_totals = "const S::Function::State* totals";
  if (g.parts > 1) {
    plan.scratch_bytes = static_cast<size_t>(g.lines.count() * g.parts * StateBytes(request));
    KernelText reduce = {.entry = "scan_reduce", .header = "scan.cuh", .definitions = definition};
    reduce.parameters = {{"const S::Element* input", InputArgument(0)},
                         {"S::Function::State* totals", ScratchArgument(0)}};
    reduce.body = absl::StrCat("  cotan::scan::Reduce", kind, "<S>(input, totals);\n");
    reduce.blocks = g.blocks();
    COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeLaunch(reduce));
    plan.steps.push_back(std::move(launch));
  }
  KernelText scan = {.entry = "scan", .header = "scan.cuh", .definitions = definition};
  scan.guarded = request.guarded_outputs;
  scan.parameters = {{"const S::Element* input", InputArgument(0)}, {"S::Element* output", OutputArgument(0)}};
  const bool has_indexes = request.outputs.size() > 1;
  if (has_indexes) scan.parameters.push_back({"long long* indexes", OutputArgument(1)});
  if (g.parts > 1) scan.parameters.push_back({const_totals, ScratchArgument(0)});
  scan.body = absl::StrCat("  cotan::scan::Scan", kind, "<S>(input, output, ", has_indexes ? "indexes" : "nullptr",
                           ", ", g.parts > 1 ? "totals" : "nullptr", ");\n");
  scan.blocks = g.blocks();
  COTAN_ASSIGN_OR_RETURN(KernelLaunch launch, MakeLaunch(scan));
  plan.steps.push_back(std::move(launch));
  return plan;
}

}  // namespace cotan::cuda
