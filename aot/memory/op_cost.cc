// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/op_cost.h"

#include <algorithm>

#include "base/dtype.h"
#include "base/layout.h"

namespace cotan::aot {
namespace {

using serialization::Op;

// Rates of one core with vectors of 8 to 16 floats.
constexpr double kFlopsPerNs = 80;
constexpr double kBytesPerNs = 8;
constexpr double kNsPerFunction = 0.1;  // per element and instruction
constexpr double kNsPerCall = 200;

double Elements(const Operand& operand) { return static_cast<double>(NumElements(operand.geometry.layout.sizes)); }

double Bytes(const Operand& operand) {
  return Elements(operand) * static_cast<double>(ByteSize(operand.geometry.dtype));
}

// Returns the multiplications and additions per element of a convolution's result.
double FlopsPerResult(const Operand& weight) {
  return 2 * Elements(weight) / static_cast<double>(std::max<int64_t>(weight.geometry.layout.sizes[0], 1));
}

double Flops(const Op& op, const ScheduledStep& step) {
  switch (op.kind_case()) {
    case Op::kMatmul:
      return 2 * Elements(step.outputs[0]) * static_cast<double>(step.inputs[0].geometry.layout.sizes.back());
    case Op::kConvolution:
      if (op.convolution().transposed()) return FlopsPerResult(step.inputs[1]) * Elements(step.inputs[0]);
      return FlopsPerResult(step.inputs[1]) * Elements(step.outputs[0]);
    case Op::kConvolutionBackwardInput:
      return FlopsPerResult(step.inputs[1]) * Elements(step.inputs[0]);
    case Op::kConvolutionBackwardWeight:
      return FlopsPerResult(step.outputs[0]) * Elements(step.inputs[0]);
    case Op::kAttention:  // scores and result, for each pair of positions
      return 4 * Elements(step.inputs[0]) * static_cast<double>(step.inputs[1].geometry.layout.sizes[2]);
    case Op::kAttentionBackward:
      return 10 * Elements(step.inputs[1]) * static_cast<double>(step.inputs[2].geometry.layout.sizes[2]);
    case Op::kRecurrent:  // projected [T, N, G*H] meets the hidden state of H
      return 2 * Elements(step.inputs[0]) * static_cast<double>(step.inputs[1].geometry.layout.sizes[1]);
    case Op::kRecurrentBackward:  // grad_hidden [T, N, H] meets the gates of G*H
      return 2 * Elements(step.inputs[0]) * static_cast<double>(step.inputs[2].geometry.layout.sizes[0]);
    default:
      return 0;
  }
}

}  // namespace

double OpCost(const Op& op, const ScheduledStep& step) {
  if (op.has_view()) return 0;
  double bytes = 0;
  double elements = 0;  // of the largest operand or result
  for (const std::vector<Operand>* operands : {&step.inputs, &step.outputs}) {
    for (const Operand& operand : *operands) {
      bytes += Bytes(operand);
      elements = std::max(elements, Elements(operand));
    }
  }
  const double functions = op.has_expr() ? elements * op.expr().instructions_size() : 0;
  return kNsPerCall + Flops(op, step) / kFlopsPerNs + bytes / kBytesPerNs + functions * kNsPerFunction;
}

}  // namespace cotan::aot
