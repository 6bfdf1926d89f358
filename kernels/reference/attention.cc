// SPDX-License-Identifier: Apache-2.0

#include <cmath>
#include <limits>

#include "kernels/reference/function_kernel.h"
#include "kernels/reference/ops.h"

namespace cotan::reference {
namespace {

using serialization::Attention;
using serialization::Op;

// Returns the scaled and masked score of query l and key s.
double Score(const Attention& op, const Tensor& q, const Tensor& k, const Tensor* bias, absl::Span<const int64_t> row,
             int64_t s) {
  const int64_t l = row[2];
  if (op.is_causal() && s > l) return -std::numeric_limits<double>::infinity();
  double score = 0;
  for (int64_t e = 0; e < q.size(3); ++e) {
    score += q.GetFloat({row[0], row[1], l, e}) * k.GetFloat({row[0], row[1], s, e});
  }
  score *= op.scale();
  return bias == nullptr ? score : score + bias->GetFloat({row[0], row[1], l, s});
}

// Returns the softmax of a row of scores. A row without keys has weights 0.
struct Row {
  std::vector<double> weights;
  double logsumexp = 0;
};

Row SoftmaxRow(const Attention& op, const Tensor& q, const Tensor& k, const Tensor* bias,
               absl::Span<const int64_t> row) {
  Row result;
  double max = -std::numeric_limits<double>::infinity();
  for (int64_t s = 0; s < k.size(2); ++s) {
    result.weights.push_back(Score(op, q, k, bias, row, s));
    max = std::max(max, result.weights.back());
  }
  double sum = 0;
  // std::max() passes NaN by, which is then the weight.
  const bool is_empty = std::isinf(max) && max < 0;
  for (double& weight : result.weights) sum += weight = is_empty && weight == max ? 0 : std::exp(weight - max);
  result.logsumexp = sum == 0 ? -std::numeric_limits<double>::infinity() : max + std::log(sum);
  for (double& weight : result.weights) weight = sum == 0 ? 0 : weight / sum;
  return result;
}

DimVector RowSizes(const Tensor& q) { return {q.size(0), q.size(1), q.size(2)}; }

absl::Status RunForward(const Op& op, const Tensors& in, const Tensors& out) {
  const Tensor& q = in[0];
  const Tensor& v = in[2];
  Tensor bias;
  if (in.size() > 3) bias = in[3].BroadcastTo({q.size(0), q.size(1), q.size(2), in[1].size(2)});
  ForEachIndex(RowSizes(q), [&](absl::Span<const int64_t> at) {
    const Row row = SoftmaxRow(op.attention(), q, in[1], in.size() > 3 ? &bias : nullptr, at);
    for (int64_t e = 0; e < v.size(3); ++e) {
      double sum = 0;
      for (int64_t s = 0; s < v.size(2); ++s) {
        sum += row.weights[static_cast<size_t>(s)] * v.GetFloat({at[0], at[1], s, e});
      }
      out[0].SetFloat({at[0], at[1], at[2], e}, sum);
    }
    if (out.size() > 1) out[1].SetFloat(at, row.logsumexp);
  });
  return absl::OkStatus();
}

absl::Status RunBackward(const Op& op, const Tensors& in, const Tensors& out) {
  const Tensor &grad = in[0], &q = in[1], &k = in[2], &v = in[3];
  Tensor bias;
  if (in.size() > 6) bias = in[6].BroadcastTo({q.size(0), q.size(1), q.size(2), k.size(2)});
  Accumulator grad_q(out[0]), grad_k(out[1]), grad_v(out[2]);
  ForEachIndex(RowSizes(q), [&](absl::Span<const int64_t> at) {
    const Row row = SoftmaxRow(op.attention_backward(), q, k, in.size() > 6 ? &bias : nullptr, at);
    const int64_t b = at[0], h = at[1], l = at[2];
    std::vector<double> grad_weight(row.weights.size(), 0);
    double mean = 0;
    for (int64_t s = 0; s < k.size(2); ++s) {
      const double weight = row.weights[static_cast<size_t>(s)];
      double& g = grad_weight[static_cast<size_t>(s)];
      for (int64_t e = 0; e < v.size(3); ++e) {
        g += grad.GetFloat({b, h, l, e}) * v.GetFloat({b, h, s, e});
        grad_v.AddFloat({b, h, s, e}, weight * grad.GetFloat({b, h, l, e}));
      }
      mean += weight * g;
    }
    for (int64_t s = 0; s < k.size(2); ++s) {
      const auto i = static_cast<size_t>(s);
      const double g = row.weights[i] * (grad_weight[i] - mean) * op.attention_backward().scale();
      for (int64_t e = 0; e < q.size(3); ++e) {
        grad_q.AddFloat({b, h, l, e}, g * k.GetFloat({b, h, s, e}));
        grad_k.AddFloat({b, h, s, e}, g * q.GetFloat({b, h, l, e}));
      }
    }
  });
  grad_q.Write();
  grad_k.Write();
  grad_v.Write();
  return absl::OkStatus();
}

}  // namespace

KernelOr MakeAttention(const KernelRequest& request) { return MakeFunctionKernel(request, RunForward); }
KernelOr MakeAttentionBackward(const KernelRequest& request) { return MakeFunctionKernel(request, RunBackward); }

}  // namespace cotan::reference
