// SPDX-License-Identifier: Apache-2.0

#include "planning/op_work.h"

#include <algorithm>
#include <vector>

#include "base/dtype.h"
#include "base/layout.h"

namespace cotan {
namespace {

using serialization::Op;

int64_t ElementsOf(const Operand& operand) { return NumElements(operand.geometry.layout.sizes); }

// Returns the bytes of the elements that the operand refers to; those of an expanded dimension are the same.
int64_t BytesOf(const Operand& operand) {
  const StridedLayout& layout = operand.geometry.layout;
  auto bytes = static_cast<int64_t>(ByteSize(operand.geometry.dtype));
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] == 0 || layout.strides[d] != 0) bytes *= layout.sizes[d];
  }
  return bytes;
}

const DimVector& SizesOf(const Operand& operand) { return operand.geometry.layout.sizes; }

// Returns the multiplications and additions per element that a filter of a convolution's `weight` meets.
int64_t FlopsPerPosition(const Operand& weight) {
  return 2 * ElementsOf(weight) / std::max<int64_t>(SizesOf(weight)[0], 1);
}

// Returns about how many operations a function takes for each element of its matrix and each of its shorter side.
int64_t FlopsPerTerm(serialization::LinearAlgebra::Function function) {
  using serialization::LinearAlgebra;
  switch (function) {
    case LinearAlgebra::EIGH:
      return 10;
    case LinearAlgebra::SVD:
      return 25;
    case LinearAlgebra::QR:
      return 4;
    default:
      return 1;
  }
}

int64_t LinearAlgebraFlops(const serialization::LinearAlgebra& op, const ScheduledStep& step) {
  const DimVector& sizes = SizesOf(step.inputs[0]);
  if (step.inputs.size() > 1) return 2 * ElementsOf(step.outputs[0]) * sizes.back();  // a solve
  const int64_t shorter = std::min(sizes[sizes.size() - 2], sizes.back());
  return FlopsPerTerm(op.function()) * ElementsOf(step.inputs[0]) * shorter;
}

int64_t FlopsOf(const Op& op, const ScheduledStep& step) {
  switch (op.kind_case()) {
    case Op::kMatmul:
      return 2 * ElementsOf(step.outputs[0]) * SizesOf(step.inputs[0]).back();
    case Op::kConvolution:
      if (op.convolution().transposed()) return FlopsPerPosition(step.inputs[1]) * ElementsOf(step.inputs[0]);
      return FlopsPerPosition(step.inputs[1]) * ElementsOf(step.outputs[0]);
    case Op::kConvolutionBackwardInput:
      return FlopsPerPosition(step.inputs[1]) * ElementsOf(step.inputs[0]);
    case Op::kConvolutionBackwardWeight:
      return FlopsPerPosition(step.outputs[0]) * ElementsOf(step.inputs[0]);
    case Op::kAttention:  // scores and result, for each pair of positions
      return 4 * ElementsOf(step.inputs[0]) * SizesOf(step.inputs[1])[2];
    case Op::kAttentionBackward:
      return 10 * ElementsOf(step.inputs[1]) * SizesOf(step.inputs[2])[2];
    case Op::kRecurrent:  // projected [T, N, G*H] meets the hidden state of H
      return 2 * ElementsOf(step.inputs[0]) * SizesOf(step.inputs[1])[1];
    case Op::kRecurrentBackward:  // grad_hidden [T, N, H] meets the gates of G*H
      return 2 * ElementsOf(step.inputs[0]) * SizesOf(step.inputs[2])[0];
    case Op::kLinearAlgebra:
      return LinearAlgebraFlops(op.linear_algebra(), step);
    default:
      return 0;
  }
}

}  // namespace

OpWork WorkOf(const Op& op, const ScheduledStep& step) {
  if (op.has_view()) return {};
  OpWork work = {.flops = FlopsOf(op, step)};
  for (const std::vector<Operand>* operands : {&step.inputs, &step.outputs}) {
    for (const Operand& operand : *operands) work.bytes += BytesOf(operand);
  }
  return work;
}

}  // namespace cotan
