// SPDX-License-Identifier: Apache-2.0

#include "aot/references/tolerance.h"

namespace cotan::aot {
namespace {

// In epsilons of the dtype.
constexpr double kEpsilons = 4096;
constexpr double kCancelledEpsilons = 256;
// In epsilons of the half: more than twice as much as the models in testing/models differ from LibTorch, 1.4 under
// autocast to bf16 and 7 to f16.
constexpr double kHalfEpsilons = 16;
// An epsilon of bf16, for f16 too, in which small gradients of a loss that is not scaled vanish.
constexpr double kHalfCancelled = 1.0 / 128;

bool IsRoundedToHalf(DType dtype, DType half) { return half != DType::kUndefined && Epsilon(dtype) != 0; }

}  // namespace

DType HalfDType(const Graph& graph) {
  DType half = DType::kUndefined;
  for (ValueId id = 0; id < graph.num_values(); ++id) {
    const DType dtype = graph.value(id).type.dtype;
    if (dtype == DType::kBFloat16) return dtype;
    if (dtype == DType::kFloat16) half = dtype;
  }
  return half;
}

double RelativeTolerance(DType dtype, DType half) {
  return IsRoundedToHalf(dtype, half) ? kHalfEpsilons * Epsilon(half) : kEpsilons * Epsilon(dtype);
}

double CancelledTolerance(DType dtype, DType half) {
  return IsRoundedToHalf(dtype, half) ? kHalfCancelled : kCancelledEpsilons * Epsilon(dtype);
}

}  // namespace cotan::aot
