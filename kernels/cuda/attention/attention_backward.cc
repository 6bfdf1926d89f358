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
        size_(geometry.size, bytes_),
        value_size_(geometry.value_size, bytes_),
        has_bias_(request.inputs.size() > 6),
        element_(geometry.ElementType()),
        compute_(geometry.ComputeType()) {}

  KernelLaunch Dots() const {
    int group = 1;
    while (group < 32 && group < geometry_.value_size) group *= 2;
    const int64_t rows = geometry_.Heads() * geometry_.queries;
    const int rows_of_block = attention::kDotThreads / group;
    const attention::Blocks blocks{(rows + rows_of_block - 1) / rows_of_block};
    const std::string constants = absl::StrCat("  static constexpr int kGroup = ", group,
                                               ";\n  static constexpr long long kRows = ", rows, ";\n");
    Parameters parameters;
    parameters.Add(absl::StrCat("const ", element_), "grad", InputArgument(0));
    parameters.Add(absl::StrCat("const ", element_), "result", InputArgument(4));
    parameters.Add(compute_, "dots", ScratchArgument(0));
    return Make("attention_dots", "Dots", attention::kDotThreads, blocks, 0, constants, parameters,
                "grad, result, dots", false);
  }

  KernelLaunch QueryGradient() const {
    const Tile tile = TileFor(geometry_.queries, geometry_.keys, geometry_.Heads() * size_.chunks);
    Parameters parameters = Operands();
    parameters.Add(element_, "grad_q", OutputArgument(0));
    return MakeProduct("attention_grad_q", "QueryGradient", tile,
                       {geometry_.Heads() * ((geometry_.queries + tile.rows - 1) / tile.rows) * size_.chunks},
                       parameters, "grad_q");
  }

  KernelLaunch KeyGradient() const {
    const int chunks = std::max(size_.chunks, value_size_.chunks);
    const Tile tile = TileFor(geometry_.keys, geometry_.queries, geometry_.Heads() * chunks);
    Parameters parameters = Operands();
    parameters.Add(element_, "grad_k", OutputArgument(1));
    parameters.Add(element_, "grad_v", OutputArgument(2));
    return MakeProduct("attention_grad_kv", "KeyGradient", tile,
                       {geometry_.Heads() * ((geometry_.keys + tile.rows - 1) / tile.rows) * chunks}, parameters,
                       "grad_k, grad_v");
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
    parameters.Add(absl::StrCat("const ", compute_), "dots", ScratchArgument(0));
    return parameters;
  }

  // Bytes of BackwardTiles.
  int64_t SharedBytes(const Tile& tile) const {
    const bool is_resident = size_.chunks == 1 && value_size_.chunks == 1;
    const int stride = is_resident ? size_.stride + value_size_.stride : std::max(size_.stride, value_size_.stride);
    return bytes_ *
           ((tile.rows + tile.columns) * stride + tile.rows * TileStride(tile.columns, bytes_) + 2 * tile.columns);
  }

  Tile TileFor(int64_t rows, int64_t columns, int64_t parts) const {
    return attention::ChooseTile(rows, columns, parts, [&](const Tile& tile) { return SharedBytes(tile); });
  }

  KernelLaunch MakeProduct(absl::string_view entry, absl::string_view function, const Tile& tile,
                           attention::Blocks blocks, const Parameters& parameters, absl::string_view outputs) const {
    const std::string constants = absl::StrCat(
        "  static constexpr int kTileRows = ", tile.rows, ";\n  static constexpr int kTileColumns = ", tile.columns,
        ";\n  static constexpr int kWeightStride = ", TileStride(tile.columns, bytes_),
        ";\n  static constexpr unsigned kSharedBytes = ", SharedBytes(tile), ";\n");
    return Make(entry, function, tile.Threads(), blocks, static_cast<unsigned>(SharedBytes(tile)), constants,
                parameters,
                absl::StrCat("grad, q, k, v, ", has_bias_ ? "bias" : "nullptr", ", logsumexp, dots, ", outputs),
                request_.guarded_outputs);
  }

  KernelLaunch Make(absl::string_view entry, absl::string_view function, unsigned threads, attention::Blocks blocks,
                    unsigned shared_bytes, absl::string_view constants, const Parameters& parameters,
                    absl::string_view passed, bool guarded) const {
    const auto in = request_.inputs;
    const auto out = request_.outputs;
    const std::vector<NamedOperand> operands = {{"Grad", &in[0]},
                                                {"Query", &in[1]},
                                                {"Key", &in[2]},
                                                {"Value", &in[3]},
                                                {"Result", &in[4]},
                                                {"LogSumExp", &in[5]},
                                                {"Bias", has_bias_ ? &in[6] : nullptr},
                                                {"GradQuery", &out[0], size_.vector},
                                                {"GradKey", &out[1], size_.vector},
                                                {"GradValue", &out[2], value_size_.vector}};
    KernelLaunch launch;
    launch.source =
        attention::MakeSource("attention_backward.cuh", attention::TypeText(geometry_, operands, blocks, constants),
                              entry, function, threads, parameters.texts, passed, guarded);
    launch.grid[0] = blocks.Grid();
    launch.block[0] = threads;
    launch.dynamic_shared_bytes = shared_bytes;
    launch.arguments = parameters.arguments;
    if (guarded) launch.arguments.push_back(ErrorRecordArgument());
    return launch;
  }

  const KernelRequest& request_;
  const Geometry& geometry_;
  int bytes_;
  Columns size_;
  Columns value_size_;
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
    plan.steps.push_back(launches.Dots());
  }
  if (has_grad_q) plan.steps.push_back(launches.QueryGradient());
  if (has_grad_kv) plan.steps.push_back(launches.KeyGradient());
  return plan;
}

}  // namespace cotan::cuda
