// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/attention/attention.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/attention/attention_source.h"

namespace cotan::cuda {
namespace {

using attention::Columns;
using attention::Geometry;
using attention::NamedOperand;
using attention::Tile;
using attention::TileStride;

// Bytes of the tiles of AttendPart().
int64_t SharedBytes(const Geometry& geometry, const Tile& tile) {
  const int bytes = geometry.ComputeBytes();
  const Columns size(geometry.size, bytes, tile.lanes);
  const Columns value_size(geometry.value_size, bytes, tile.lanes);
  return bytes * ((tile.rows + tile.columns) * size.stride + tile.columns * value_size.stride +
                  tile.rows * TileStride(tile.columns, bytes));
}

KernelLaunch MakeLaunch(const KernelRequest& request, const Geometry& geometry) {
  const auto in = request.inputs;
  const auto out = request.outputs;
  const bool has_bias = in.size() > 3;
  const bool has_logsumexp = out.size() > 1;
  const int bytes = geometry.ComputeBytes();
  const auto shared_bytes = [&](const Tile& t) { return SharedBytes(geometry, t); };
  const Tile tile = attention::ChooseTile(geometry, geometry.queries, geometry.keys, has_bias, shared_bytes);
  const Columns value_size(geometry.value_size, bytes, tile.lanes);
  const attention::Blocks blocks{geometry.Heads() * ((geometry.queries + tile.rows - 1) / tile.rows) *
                                 value_size.chunks};
  const std::vector<NamedOperand> operands = {{"Query", &in[0]},
                                              {"Key", &in[1]},
                                              {"Value", &in[2]},
                                              {"Bias", has_bias ? &in[3] : nullptr},
                                              {"Result", &out[0], value_size.vector},
                                              {"LogSumExp", has_logsumexp ? &out[1] : nullptr}};
  const std::string constants = absl::StrCat(
      "  static constexpr int kTileQueries = ", tile.rows, ";\n  static constexpr int kTileKeys = ", tile.columns,
      ";\n  static constexpr int kWeightStride = ", TileStride(tile.columns, bytes),
      ";\n  static constexpr unsigned kSharedBytes = ", shared_bytes(tile), ";\n");

  KernelLaunch launch;
  launch.grid[0] = blocks.Grid();
  launch.block[0] = tile.Threads();
  launch.dynamic_shared_bytes = static_cast<unsigned>(shared_bytes(tile));
  const std::string element(geometry.ElementType());
  std::vector<std::string> parameters;
  const auto add = [&](std::string type, absl::string_view name, const KernelArgument& argument) {
    parameters.push_back(absl::StrCat(type, "* __restrict__ ", name));
    launch.arguments.push_back(argument);
  };
  add("const " + element, "q", InputArgument(0));
  add("const " + element, "k", InputArgument(1));
  add("const " + element, "v", InputArgument(2));
  if (has_bias) add("const " + element, "bias", InputArgument(3));
  add(element, "result", OutputArgument(0));
  if (has_logsumexp) add(std::string(geometry.ComputeType()), "logsumexp", OutputArgument(1));
  if (request.guarded_outputs) launch.arguments.push_back(ErrorRecordArgument());
  launch.source = attention::MakeSource(
      "attention.cuh", attention::TypeText(geometry, operands, tile, blocks, constants), "attention", "Attend", tile,
      parameters,
      absl::StrCat("q, k, v, ", has_bias ? "bias" : "nullptr", ", result, ", has_logsumexp ? "logsumexp" : "nullptr"),
      request.guarded_outputs);
  return launch;
}

}  // namespace

absl::StatusOr<KernelPlan> PlanFlashAttention(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const auto in = request.inputs;
  COTAN_ASSIGN_OR_RETURN(const Geometry geometry, Geometry::Create(request.op.attention(), in[0], in[1], in[2]));
  KernelPlan plan;
  const bool has_outputs = geometry.value_size > 0 || request.outputs.size() > 1;
  if (geometry.Heads() * geometry.queries > 0 && has_outputs) plan.steps.push_back(MakeLaunch(request, geometry));
  return plan;
}

}  // namespace cotan::cuda
