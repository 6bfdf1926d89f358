// SPDX-License-Identifier: Apache-2.0

#include "serialization/schema/op_kind.h"

#include <array>
#include <cstddef>

namespace cotan {
namespace {

using serialization::Op;

struct NamedKind {
  OpKind kind;
  absl::string_view name;
};

// The planner resolves views, the session runs effects, readers of files replace calls, a communicator makes kernels of
// collectives.
constexpr std::array kWithoutKernels = {
    NamedKind{Op::kView, "view"},
    NamedKind{Op::kEffect, "effect"},
    NamedKind{Op::kCall, "call"},
    NamedKind{Op::kCollective, "collective"},
};

constexpr std::array kWithKernels = {
    NamedKind{Op::kExpr, "expr"},
    NamedKind{Op::kCopy, "copy"},
    NamedKind{Op::kMatmul, "matmul"},
    NamedKind{Op::kConvolution, "convolution"},
    NamedKind{Op::kConvolutionBackwardInput, "convolution_backward_input"},
    NamedKind{Op::kConvolutionBackwardWeight, "convolution_backward_weight"},
    NamedKind{Op::kMaxPool, "max_pool"},
    NamedKind{Op::kMaxPoolBackward, "max_pool_backward"},
    NamedKind{Op::kAvgPool, "avg_pool"},
    NamedKind{Op::kAvgPoolBackward, "avg_pool_backward"},
    NamedKind{Op::kGather, "gather"},
    NamedKind{Op::kScatterAdd, "scatter_add"},
    NamedKind{Op::kConcat, "concat"},
    NamedKind{Op::kAttention, "attention"},
    NamedKind{Op::kAttentionBackward, "attention_backward"},
    NamedKind{Op::kCheckedIndex, "checked_index"},
    NamedKind{Op::kScan, "scan"},
    NamedKind{Op::kSort, "sort"},
    NamedKind{Op::kRecurrent, "recurrent"},
    NamedKind{Op::kRecurrentBackward, "recurrent_backward"},
    NamedKind{Op::kLinearAlgebra, "linear_algebra"},
};

constexpr auto kKinds = [] {
  std::array<OpKind, kWithKernels.size()> kinds{};
  for (size_t i = 0; i < kinds.size(); ++i) kinds[i] = kWithKernels[i].kind;
  return kinds;
}();

}  // namespace

absl::string_view OpKindName(OpKind kind) {
  for (const NamedKind& named : kWithoutKernels) {
    if (named.kind == kind) return named.name;
  }
  for (const NamedKind& named : kWithKernels) {
    if (named.kind == kind) return named.name;
  }
  return "unknown";
}

absl::Span<const OpKind> AllOpKinds() { return kKinds; }

}  // namespace cotan
