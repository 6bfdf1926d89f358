// SPDX-License-Identifier: Apache-2.0

// Rows of batch, layer and group normalisation, forward and backward. f16 and bf16 are computed in
// f32, and may be combined with f32 statistics and weights.
#include <numeric>

#include "absl/strings/match.h"
#include "aot/ir/collective_node.h"
#include "aot/ir/prim_node.h"
#include "aot/lowering/ops/lowering.h"
#include "aot/lowering/ops/op_table_rows.h"

namespace cotan::aot {
namespace {

// What is normalised over all dimensions except the channel.
struct Batch {
  Tensor x;               // [N, C, ...]
  bool by_image = false;  // each image has channels of its own, N * C in all
};

// Returns the batch of a tensor [N, C, ...]. Instance normalisation views [N, C, ...] as [1, N * C, ...], which layout
// assignment does not see through: its images are normalised before that view.
Batch BatchOf(Lowering& l, const Tensor& x) {
  const Node* node = l.b.Producer(x.id());
  if (node == nullptr || !IsPrim(*node, PrimOp::kView)) return {l.widened(x)};
  const Tensor source = l.b.Value(OperandOf(*node, "x"));
  const SymIntVector& from = source.sizes();
  const SymIntVector& to = x.sizes();
  const bool merges = from.size() == to.size() && from.size() > 2 && to[0] == SymInt(1) && from[0] * from[1] == to[1] &&
                      std::equal(from.begin() + 2, from.end(), to.begin() + 2);
  return merges ? Batch{l.widened(source), true} : Batch{l.widened(x)};
}

std::vector<int64_t> BatchDims(const Batch& batch) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < batch.x.rank(); ++i) {
    if (i > 1 || (i == 0 && !batch.by_image)) dims.push_back(i);
  }
  return dims;
}

SymInt CountOf(const Tensor& x, absl::Span<const int64_t> dims) {
  SymInt count = 1;
  for (const int64_t dim : dims) count = count * x.sizes()[static_cast<size_t>(dim)];
  return count;
}

// [C] as [1, C, 1, ...], or [N * C] as [N, C, 1, ...].
Tensor PerChannel(Lowering& l, const Tensor& vector, const Batch& batch) {
  SymIntVector sizes(batch.x.sizes().size(), SymInt(1));
  if (batch.by_image) sizes[0] = batch.x.sizes()[0];
  sizes[1] = batch.x.sizes()[1];
  return l.b.View(vector, std::move(sizes));
}

// The reverse of PerChannel().
Tensor AsVector(Lowering& l, const Tensor& per_channel) {
  return l.b.View(per_channel, {per_channel.sizes()[0] * per_channel.sizes()[1]});
}

struct BatchMoments {
  Tensor mean;  // as of PerChannel()
  Tensor variance;
  Tensor ranks;  // [1]: the number of ranks; undefined: one process
};

// Returns whether the row is one of those that SynchronizeBatchNorm() (aot/transforms) chooses.
bool IsSynchronized(const Lowering& l) { return absl::StartsWith(l.node().op, "cotan.sync_"); }

// Returns the sums of `tensors` over all ranks, and the number of ranks, [1].
std::vector<Tensor> SumOverRanks(Lowering& l, std::vector<Tensor> tensors) {
  tensors.push_back(l.b.Full(l.b.Literal(1.0), tensors[0].dtype(), {SymInt(1)}));
  return AllReduce(l.b, tensors, /*mean=*/false);
}

// Two passes: squaring after subtracting the mean avoids cancellation. Deep networks amplify the
// rounding errors of a single pass, for example at a relu whose input is close to 0.
BatchMoments MomentsOf(Lowering& l, const Batch& batch) {
  const Tensor& x = batch.x;
  const std::vector<int64_t> dims = BatchDims(batch);
  Tensor mean = l.b.ReduceMean(x, dims);
  Tensor ranks;
  if (IsSynchronized(l)) {
    const std::vector<Tensor> sums = SumOverRanks(l, {mean});
    ranks = sums[1];
    mean = sums[0] / ranks;
  }
  const Tensor centered = x - mean;
  Tensor variance = l.b.ReduceMean(centered * centered, dims);
  if (IsSynchronized(l)) variance = AllReduce(l.b, {variance}, /*mean=*/false)[0] / ranks;
  return {mean, variance, ranks};
}

struct BatchNormArguments {
  Batch batch;
  Tensor weight, bias, running_mean, running_var;
  bool training = false;
  double momentum = 0;
  double eps = 0;
};

Tensor Affine(Lowering& l, const BatchNormArguments& arguments, const Tensor& mean, const Tensor& invstd) {
  const Batch& batch = arguments.batch;
  const Tensor scale = arguments.weight.defined() ? invstd * PerChannel(l, arguments.weight, batch) : invstd;
  Tensor y = (batch.x - mean) * scale;
  if (arguments.bias.defined()) y = y + PerChannel(l, arguments.bias, batch);
  return l.b.View(y, l.result().sizes);
}

Tensor Blend(Lowering& l, const Tensor& running, const Tensor& batch, double momentum) {
  return running * l.b.Literal(1 - momentum) + batch * l.b.Literal(momentum);
}

// Results: out, save_mean, save_invstd[, new running mean, new running var].
absl::Status BatchNorm(Lowering& l, const BatchNormArguments& arguments) {
  const Batch& batch = arguments.batch;
  const Tensor eps = l.b.Literal(arguments.eps);
  if (!arguments.training) {
    if (!arguments.running_mean.defined()) return l.Unsupported("evaluation without running statistics");
    const Tensor mean = PerChannel(l, arguments.running_mean, batch);
    const Tensor invstd = l.b.Rsqrt(PerChannel(l, arguments.running_var, batch) + eps);
    const Tensor none = l.b.Full(l.b.Literal(0.0), batch.x.dtype(), {SymInt(0)});
    return l.ReturnCast(
        {Affine(l, arguments, mean, invstd), none, none, arguments.running_mean, arguments.running_var});
  }
  const BatchMoments moments = MomentsOf(l, batch);
  const Tensor invstd = l.b.Rsqrt(moments.variance + eps);
  std::vector<Tensor> results = {Affine(l, arguments, moments.mean, invstd), AsVector(l, moments.mean),
                                 AsVector(l, invstd)};
  if (l.node().outputs.size() > 3) {
    const SymInt count = CountOf(batch.x, BatchDims(batch));
    Tensor unbiased;
    if (moments.ranks.defined()) {
      const Tensor all = moments.ranks * l.b.Literal(count);
      unbiased = moments.variance * (all / (all - l.b.Literal(SymInt(1))));
    } else {
      unbiased = moments.variance * l.b.Literal(count) / l.b.Literal(count - SymInt(1));
    }
    results.push_back(Blend(l, arguments.running_mean, AsVector(l, moments.mean), arguments.momentum));
    results.push_back(Blend(l, arguments.running_var, AsVector(l, unbiased), arguments.momentum));
  }
  return l.ReturnCast(results);
}

// (input, weight, bias, running_mean, running_var, training, momentum, eps)
absl::Status LowerBatchNorm(Lowering& l) {
  const bool mutates = l.flag(5) && l.node().outputs.size() <= 3 && !l.is_none(3);
  if (mutates) return l.Unsupported("running statistics that the op itself would write; trace the functional form");
  return BatchNorm(l, {BatchOf(l, l.tensor(0)), l.wide_optional(1), l.wide_optional(2), l.wide_optional(3),
                       l.wide_optional(4), l.flag(5), l.number(6), l.number(7)});
}

// (input, weight, bias, training, momentum, eps)
absl::Status LowerBatchNormNoStats(Lowering& l) {
  return BatchNorm(l, {BatchOf(l, l.tensor(0)), l.wide_optional(1), l.wide_optional(2), Tensor(), Tensor(), true,
                       l.number(4), l.number(5)});
}

// (input, weight, bias, running_mean, running_var, momentum, eps)
absl::Status LowerBatchNormNoTraining(Lowering& l) {
  return BatchNorm(l, {BatchOf(l, l.tensor(0)), l.wide_optional(1), l.wide_optional(2), l.wide_optional(3),
                       l.wide_optional(4), false, l.number(5), l.number(6)});
}

// (grad, input, weight, running_mean, running_var, save_mean, save_invstd, train, eps, mask)
absl::Status LowerBatchNormBackward(Lowering& l) {
  const Batch batch = BatchOf(l, l.tensor(1));
  const Tensor& x = batch.x;
  const Tensor grad = l.b.View(l.wide(0), x.sizes());
  const Tensor weight = l.wide_optional(2);
  const bool train = l.flag(7);
  const std::vector<int64_t> dims = BatchDims(batch);
  const Tensor mean = PerChannel(l, l.wide(train ? 5 : 3), batch);
  const Tensor invstd =
      train ? PerChannel(l, l.wide(6), batch) : l.b.Rsqrt(PerChannel(l, l.wide(4), batch) + l.b.Literal(l.number(8)));
  const Tensor centered = x - mean;
  const Tensor sum_grad = l.b.ReduceSum(grad, dims);
  const Tensor sum_product = l.b.ReduceSum(grad * centered, dims) * invstd;
  const Tensor scale = weight.defined() ? invstd * PerChannel(l, weight, batch) : invstd;
  Tensor grad_input = grad * scale;
  if (train) {
    Tensor count = l.b.Literal(CountOf(x, dims));
    // The sums of all ranks; the gradients of weight and bias are this rank's, as those of other parameters.
    std::vector<Tensor> sums = {sum_product, sum_grad};
    if (IsSynchronized(l)) {
      sums = SumOverRanks(l, sums);
      count = sums[2] * count;
    }
    grad_input = grad_input - centered * (scale * invstd * sums[0] / count) - scale * sums[1] / count;
  }
  grad_input = l.b.View(grad_input, l.tensor(1).sizes());
  return l.ReturnCast({grad_input, AsVector(l, sum_product), AsVector(l, sum_grad)});
}

// Layer normalisation --------------------------------------------------------

std::vector<int64_t> TrailingDims(const Tensor& x, size_t count) {
  std::vector<int64_t> dims(count);
  std::iota(dims.begin(), dims.end(), x.rank() - static_cast<int64_t>(count));
  return dims;
}

std::vector<int64_t> LeadingDims(const Tensor& x, size_t trailing) {
  std::vector<int64_t> dims(static_cast<size_t>(x.rank()) - trailing);
  std::iota(dims.begin(), dims.end(), 0);
  return dims;
}

// (input, normalized_shape, weight, bias, eps) -> out, mean, rstd
absl::Status LowerLayerNorm(Lowering& l) {
  const Tensor x = l.wide(0);
  const std::vector<int64_t> dims = TrailingDims(x, l.sizes(1).size());
  const Tensor weight = l.wide_optional(2);
  const Tensor bias = l.wide_optional(3);
  const Tensor mean = l.b.ReduceMean(x, dims);
  const Tensor centered = x - mean;
  const Tensor variance = l.b.ReduceMean(centered * centered, dims);
  const Tensor rstd = l.b.Rsqrt(variance + l.literal(4));
  Tensor y = centered * rstd;
  if (weight.defined()) y = y * weight;
  if (bias.defined()) y = y + bias;
  return l.ReturnCast({y, mean, rstd});
}

// (grad, input, normalized_shape, mean, rstd, weight, bias, mask) -> dx, dw, db
absl::Status LowerLayerNormBackward(Lowering& l) {
  const Tensor grad = l.wide(0);
  const Tensor x = l.wide(1);
  const SymIntVector shape = l.sizes(2);
  const Tensor mean = l.wide(3);
  const Tensor rstd = l.wide(4);
  const Tensor weight = l.wide_optional(5);
  const std::vector<int64_t> dims = TrailingDims(x, shape.size());
  const std::vector<int64_t> outer = LeadingDims(x, shape.size());
  const Tensor count = l.b.Literal(CountOf(x, dims));
  const Tensor normalized = (x - mean) * rstd;
  const Tensor scaled = weight.defined() ? grad * weight : grad;
  const Tensor mean_grad = l.b.ReduceSum(scaled, dims) / count;
  const Tensor mean_product = l.b.ReduceSum(scaled * normalized, dims) / count;
  std::vector<Tensor> results(3);
  results[0] = rstd * (scaled - mean_grad - normalized * mean_product);
  if (l.has_result(1)) results[1] = l.b.View(l.b.ReduceSum(grad * normalized, outer), shape);
  if (l.has_result(2)) results[2] = l.b.View(l.b.ReduceSum(grad, outer), shape);
  return l.ReturnCast(results);
}

// (input, normalized_shape, weight, eps) -> out, rstd
absl::Status LowerRmsNorm(Lowering& l) {
  const Tensor x = l.wide(0);
  const std::vector<int64_t> dims = TrailingDims(x, l.sizes(1).size());
  const Tensor weight = l.wide_optional(2);
  const double eps =
      l.is_none(3) ? (x.dtype() == DType::kFloat64 ? 2.220446049250313e-16 : 1.1920928955078125e-07) : l.number(3);
  const Tensor rstd = l.b.Rsqrt(l.b.ReduceMean(x * x, dims) + l.b.Literal(eps));
  const Tensor y = x * rstd;
  return l.ReturnCast({weight.defined() ? y * weight : y, rstd});
}

// Group normalisation --------------------------------------------------------
//
// Sums over a group are sums over the pixels of each channel, and then over the channels of the group. The first keep
// the sizes of the input, so that they are as fast where it is channels-last, and fuse with the ops around them.

// The groups of channels of an input [N, C, ...].
struct Groups {
  SymIntVector input;
  SymInt n, channels, area, groups, per_group;
  SymInt Count() const { return per_group * area; }
};

// The arguments N, C, HxW, group from position `first`.
Groups GroupsOf(Lowering& l, const Tensor& input, int first) {
  Groups groups{input.sizes(), l.size(first), l.size(first + 1), l.size(first + 2), l.size(first + 3), 1};
  groups.per_group = SymInt::Binary(SymInt::Kind::kFloorDiv, groups.channels, groups.groups);
  return groups;
}

// Returns one number for each channel of each image, or of all images, as [N, C, 1, ...] or [1, C, 1, ...].
Tensor ByChannel(Lowering& l, const Tensor& numbers, const Groups& groups, bool of_images) {
  SymIntVector sizes(groups.input.size(), SymInt(1));
  sizes[0] = of_images ? groups.n : SymInt(1);
  sizes[1] = groups.channels;
  return l.b.View(numbers, std::move(sizes));
}

// Returns the sums over the pixels of each channel, [N, groups, C / groups].
Tensor SumOfPixels(Lowering& l, const Tensor& x, const Groups& groups) {
  const Tensor sums = l.b.ReduceSum(x, TrailingDims(x, groups.input.size() - 2));
  return l.b.View(sums, {groups.n, groups.groups, groups.per_group});
}

// Returns the mean over groups of x, [N, groups, 1].
Tensor MeanOfGroups(Lowering& l, const Tensor& x, const Groups& groups) {
  return l.b.ReduceSum(SumOfPixels(l, x, groups), {2}) / l.b.Literal(groups.Count());
}

// Returns numbers of groups, [N, groups, 1], for each of their channels, [N, C, 1, ...].
Tensor SpreadOverChannels(Lowering& l, const Tensor& numbers, const Groups& groups) {
  return ByChannel(l, l.b.Expand(numbers, {groups.n, groups.groups, groups.per_group}), groups, /*of_images=*/true);
}

// Returns the product of numbers of groups, [N, groups, 1], and weights of channels, [N, groups, C / groups], or only
// the numbers if `weight` is undefined.
Tensor TimesWeight(Lowering& l, const Tensor& numbers, const Tensor& weight, const Groups& groups) {
  return weight.defined() ? numbers * l.b.View(weight, {1, groups.groups, groups.per_group}) : numbers;
}

// (input, weight, bias, N, C, HxW, group, eps) -> out, mean, rstd
absl::Status LowerGroupNorm(Lowering& l) {
  const Tensor x = l.wide(0);
  const Groups groups = GroupsOf(l, x, 3);
  const Tensor weight = l.wide_optional(1);
  const Tensor bias = l.wide_optional(2);
  const Tensor mean = MeanOfGroups(l, x, groups);
  const Tensor centered = x - SpreadOverChannels(l, mean, groups);
  const Tensor rstd = l.b.Rsqrt(MeanOfGroups(l, centered * centered, groups) + l.literal(7));
  Tensor y = centered * SpreadOverChannels(l, TimesWeight(l, rstd, weight, groups), groups);
  if (bias.defined()) y = y + ByChannel(l, bias, groups, /*of_images=*/false);
  const SymIntVector flat = {groups.n, groups.groups};
  return l.ReturnCast({y, l.b.View(mean, flat), l.b.View(rstd, flat)});
}

// (grad, input, mean, rstd, weight, N, C, HxW, group, mask) -> dx, dw, db
absl::Status LowerGroupNormBackward(Lowering& l) {
  const Tensor grad = l.wide(0);
  const Tensor x = l.wide(1);
  const Groups groups = GroupsOf(l, x, 5);
  const SymIntVector per_group = {groups.n, groups.groups, 1};
  const Tensor mean = l.b.View(l.wide(2), per_group);
  const Tensor rstd = l.b.View(l.wide(3), per_group);
  const Tensor weight = l.wide_optional(4);
  const Tensor centered = x - SpreadOverChannels(l, mean, groups);
  const Tensor sum_grad = SumOfPixels(l, grad, groups);
  const Tensor sum_product = SumOfPixels(l, grad * centered, groups) * rstd;
  const Tensor count = l.b.Literal(groups.Count());
  const Tensor mean_grad = l.b.ReduceSum(TimesWeight(l, sum_grad, weight, groups), {2}) / count;
  const Tensor mean_product = l.b.ReduceSum(TimesWeight(l, sum_product, weight, groups), {2}) / count;
  const auto spread = [&](const Tensor& numbers) { return SpreadOverChannels(l, numbers, groups); };
  std::vector<Tensor> results(3);
  results[0] = grad * spread(TimesWeight(l, rstd, weight, groups)) - spread(rstd * mean_grad) -
               centered * spread(rstd * rstd * mean_product);
  const SymIntVector channels = {groups.channels};
  if (l.has_result(1)) results[1] = l.b.View(l.b.ReduceSum(sum_product, {0}), channels);
  if (l.has_result(2)) results[2] = l.b.View(l.b.ReduceSum(sum_grad, {0}), channels);
  return l.ReturnCast(results);
}

constexpr OpRow Row(absl::string_view op, LowerFunction lower) { return {op, OpFamily::kComposite, lower}; }

constexpr OpRow kRows[] = {
    Row("aten._fused_rms_norm.default", LowerRmsNorm),
    Row("aten._native_batch_norm_legit.default", LowerBatchNorm),
    Row("aten._native_batch_norm_legit.no_stats", LowerBatchNormNoStats),
    Row("aten._native_batch_norm_legit_functional.default", LowerBatchNorm),
    Row("aten._native_batch_norm_legit_no_training.default", LowerBatchNormNoTraining),
    Row("aten.native_batch_norm.default", LowerBatchNorm),
    Row("aten.native_batch_norm_backward.default", LowerBatchNormBackward),
    Row("aten.native_group_norm.default", LowerGroupNorm),
    Row("aten.native_group_norm_backward.default", LowerGroupNormBackward),
    Row("aten.native_layer_norm.default", LowerLayerNorm),
    Row("aten.native_layer_norm_backward.default", LowerLayerNormBackward),
    Row("cotan.sync__native_batch_norm_legit.default", LowerBatchNorm),
    Row("cotan.sync__native_batch_norm_legit.no_stats", LowerBatchNormNoStats),
    Row("cotan.sync__native_batch_norm_legit_functional.default", LowerBatchNorm),
    Row("cotan.sync_native_batch_norm.default", LowerBatchNorm),
    Row("cotan.sync_native_batch_norm_backward.default", LowerBatchNormBackward),
};

}  // namespace

absl::Span<const OpRow> NormalizationRows() { return kRows; }

}  // namespace cotan::aot
