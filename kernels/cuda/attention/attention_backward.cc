// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/attention/attention_source.h"

namespace cotan::cuda {
namespace {

using attention::Columns;
using attention::Geometry;
using attention::NamedOperand;
using attention::Tile;
using attention::TileStride;

// Makes the launches of one backward.
class BackwardLaunches {
 public:
  BackwardLaunches(const KernelRequest& request, const Geometry& geometry)
      : request_(request),
        geometry_(geometry),
        bytes_(geometry.ComputeBytes()),
        has_bias_(request.inputs.size() > 6),
        element_(geometry.ElementType()),
        compute_(geometry.ComputeType()) {}

  // Computes the dots, too.
  KernelLaunch QueryGradient() const {
    const Tile tile = TileFor(geometry_.queries, geometry_.keys);
    Parameters parameters = Operands();
    parameters.Add(absl::StrCat("const ", element_), "result", InputArgument(4));
    parameters.Add(element_, "grad_q", OutputArgument(0));
    parameters.Add(compute_, "dots", ScratchArgument(0));
    return MakeProduct("attention_grad_q", "QueryGradient", tile,
                       {geometry_.Heads() * ((geometry_.queries + tile.rows - 1) / tile.rows) * Size(tile).chunks},
                       parameters, absl::StrCat("grad, q, k, v, result, ", Bias(), ", logsumexp, grad_q, dots"));
  }

  KernelLaunch KeyGradient() const {
    const Tile tile = TileFor(geometry_.keys, geometry_.queries);
    const int chunks = std::max(Size(tile).chunks, ValueSize(tile).chunks);
    Parameters parameters = Operands();
    parameters.Add(absl::StrCat("const ", compute_), "dots", ScratchArgument(0));
    parameters.Add(element_, "grad_k", OutputArgument(1));
    parameters.Add(element_, "grad_v", OutputArgument(2));
    return MakeProduct("attention_grad_kv", "KeyGradient", tile,
                       {geometry_.Heads() * ((geometry_.keys + tile.rows - 1) / tile.rows) * chunks}, parameters,
                       absl::StrCat("grad, q, k, v, ", Bias(), ", logsumexp, dots, grad_k, grad_v"));
  }

 private:
  struct Parameters {
    std::vector<std::string> texts;
    std::vector<KernelArgument> arguments;

    void Add(absl::string_view type, absl::string_view name, const KernelArgument& argument) {
      texts.push_back(absl::StrCat(type, "* __restrict__ ", name));
      arguments.push_back(argument);
    }
  };

  Parameters Operands() const {
    const std::string element = absl::StrCat("const ", element_);
    Parameters parameters;
    parameters.Add(element, "grad", InputArgument(0));
    parameters.Add(element, "q", InputArgument(1));
    parameters.Add(element, "k", InputArgument(2));
    parameters.Add(element, "v", InputArgument(3));
    if (has_bias_) parameters.Add(element, "bias", InputArgument(6));
    parameters.Add(absl::StrCat("const ", compute_), "logsumexp", InputArgument(5));
    return parameters;
  }

  absl::string_view Bias() const { return has_bias_ ? "bias" : "nullptr"; }

  Columns Size(const Tile& tile) const { return Columns(geometry_.size, bytes_, tile.lanes); }
  Columns ValueSize(const Tile& tile) const { return Columns(geometry_.value_size, bytes_, tile.lanes); }

  // Bytes of BackwardTiles.
  int64_t SharedBytes(const Tile& tile) const {
    const Columns size = Size(tile), value_size = ValueSize(tile);
    const bool is_resident = size.chunks == 1 && value_size.chunks == 1;
    const int stride = is_resident ? size.stride + value_size.stride : std::max(size.stride, value_size.stride);
    return bytes_ *
           ((tile.rows + tile.columns) * stride + tile.rows * TileStride(tile.columns, bytes_) + 2 * tile.columns);
  }

  Tile TileFor(int64_t rows, int64_t columns) const {
    return attention::ChooseTile(geometry_, rows, columns, has_bias_,
                                 [&](const Tile& tile) { return SharedBytes(tile); });
  }

  KernelLaunch MakeProduct(absl::string_view entry, absl::string_view function, const Tile& tile,
                           attention::Blocks blocks, const Parameters& parameters, absl::string_view passed) const {
    const std::string constants = absl::StrCat(
        "  static constexpr int kTileRows = ", tile.rows, ";\n  static constexpr int kTileColumns = ", tile.columns,
        ";\n  static constexpr int kWeightStride = ", TileStride(tile.columns, bytes_),
        ";\n  static constexpr unsigned kSharedBytes = ", SharedBytes(tile), ";\n");
    const auto in = request_.inputs;
    const auto out = request_.outputs;
    const std::vector<NamedOperand> operands = {{"Grad", &in[0]},
                                                {"Query", &in[1]},
                                                {"Key", &in[2]},
                                                {"Value", &in[3]},
                                                {"Result", &in[4]},
                                                {"LogSumExp", &in[5]},
                                                {"Bias", has_bias_ ? &in[6] : nullptr},
                                                {"GradQuery", &out[0], Size(tile).vector},
                                                {"GradKey", &out[1], Size(tile).vector},
                                                {"GradValue", &out[2], ValueSize(tile).vector}};
    KernelLaunch launch;
    const bool guarded = request_.guarded_outputs;
    launch.source = attention::MakeSource("attention_backward.cuh",
                                          attention::TypeText(geometry_, operands, tile, blocks, constants), entry,
                                          function, tile, parameters.texts, passed, guarded);
    launch.grid[0] = blocks.Grid();
    launch.block[0] = tile.Threads();
    launch.dynamic_shared_bytes = static_cast<unsigned>(SharedBytes(tile));
    launch.arguments = parameters.arguments;
    if (guarded) launch.arguments.push_back(ErrorRecordArgument());
    return launch;
  }

  const KernelRequest& request_;
  const Geometry& geometry_;
  int bytes_;
  bool has_bias_;
  absl::string_view element_;
  absl::string_view compute_;
};

}  // namespace

absl::StatusOr<KernelPlan> PlanFlashAttentionBackward(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const auto in = request.inputs;
  COTAN_ASSIGN_OR_RETURN(const Geometry geometry,
                         Geometry::Create(request.op.attention_backward(), in[1], in[2], in[3]));
  const int64_t rows = geometry.Heads() * geometry.queries;
  const BackwardLaunches launches(request, geometry);
  const bool has_grad_q = rows > 0 && geometry.size > 0;
  const bool has_grad_kv = geometry.Heads() * geometry.keys > 0 && (geometry.size > 0 || geometry.value_size > 0);
  KernelPlan plan;
  if (rows > 0 && (has_grad_q || has_grad_kv)) {
    plan.scratch_bytes = static_cast<size_t>(rows * geometry.ComputeBytes());
    plan.steps.push_back(launches.QueryGradient());
  }
  if (has_grad_kv) plan.steps.push_back(launches.KeyGradient());
  return plan;
}

}  // namespace cotan::cuda
