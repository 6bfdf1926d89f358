// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/in_place.h"

#include <algorithm>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/expr_program.h"
#include "kernels/api/matmul_epilogue.h"

namespace cotan {
namespace {

using serialization::Op;

// Returns the value that a kernel may store for the node: casts and signs of bool may have the bytes of their operand.
int SameValue(const std::vector<ExprNode>& nodes, int index) {
  const ExprNode& node = nodes[static_cast<size_t>(index)];
  const bool same =
      node.fn == serialization::FN_CAST || (node.fn == serialization::FN_SIGN && node.dtype == DType::kBool);
  return same ? SameValue(nodes, node.operands[0]) : index;
}

// Expressions run in phases: phase 0 visits the domain and computes the first reductions, then the values
// that depend only on them; phase 1 visits the domain again, and so on. Time 2 p is phase p over the domain,
// time 2 p + 1 the reduced values that become known after it, time -1 the values known before. A full value
// may be computed again in any later phase that uses it.
bool ExprInPlaceSafe(const KernelRequest& request, int input, int output) {
  const absl::StatusOr<ExprProgram> program = ResolveExpr(request);
  if (!program.ok()) return false;
  const std::vector<ExprNode>& nodes = program->nodes;
  std::vector<int> time(nodes.size());           // when the value is first known
  std::vector<int> last_read(nodes.size(), -2);  // when the node may last be evaluated
  for (size_t i = 0; i < nodes.size(); ++i) {
    int latest = -1;
    for (int k = 0; k < ExprArity(nodes[i].fn); ++k) {
      latest = std::max(latest, time[static_cast<size_t>(nodes[i].operands[static_cast<size_t>(k)])]);
    }
    if (IsExprReduction(nodes[i].fn)) {
      time[i] = latest + (latest % 2 == 0 ? 1 : 2);  // in the next visit of the domain
    } else if (nodes[i].level == ExprLevel::kFull) {
      time[i] = latest % 2 == 0 ? latest : latest + 1;
    } else {
      time[i] = latest;
    }
    last_read[i] = time[i];
  }
  // Another output that is the input itself may be stored after this one.
  for (size_t k = 0; k < program->outputs.size(); ++k) {
    const ExprNode& node = nodes[static_cast<size_t>(SameValue(nodes, program->outputs[k]))];
    if (static_cast<int>(k) != output && node.fn == serialization::FN_INPUT && node.index == input) return false;
  }
  int last_use = -2;
  for (size_t i = nodes.size(); i-- > 0;) {
    if (nodes[i].fn == serialization::FN_RANDOM_UNIFORM && nodes[i].index == input) return false;
    if (nodes[i].fn == serialization::FN_INPUT && nodes[i].index == input) last_use = std::max(last_use, last_read[i]);
    for (int k = 0; k < ExprArity(nodes[i].fn); ++k) {
      const auto operand = static_cast<size_t>(nodes[i].operands[static_cast<size_t>(k)]);
      // A reduction over values known before runs in its own visit.
      const int read = IsExprReduction(nodes[i].fn) ? time[i] - 1 : last_read[i];
      last_read[operand] = std::max(last_read[operand], read);
    }
  }
  const int stored = time[static_cast<size_t>(program->outputs[static_cast<size_t>(output)])];
  return last_use <= stored;
}

// The product may be computed in parts, each followed by its part of the epilogue, so its operands are read
// until the end.
bool EpilogueInPlaceSafe(const KernelRequest& request, int input, int output) {
  if (!request.op.matmul().has_epilogue() || input < 2) return false;
  const absl::StatusOr<MatmulParts> parts = TakeApartMatmul(request);
  return parts.ok() && ExprInPlaceSafe(parts->Epilogue(request), input - 1, output);
}

}  // namespace

bool InPlaceSafe(const KernelRequest& request, int input, int output) {
  const TensorSpec& from = request.inputs[static_cast<size_t>(input)];
  const TensorSpec& to = request.outputs[static_cast<size_t>(output)];
  if (ByteSize(from.dtype) != ByteSize(to.dtype) || from.layout != to.layout) return false;
  switch (request.op.kind_case()) {
    case Op::kExpr:
      return ExprInPlaceSafe(request, input, output);
    case Op::kMatmul:
      return EpilogueInPlaceSafe(request, input, output);
    case Op::kCopy:
      return true;
    case Op::kScatterAdd:
      return input == 2;
    case Op::kRecurrentBackward:
      // The gradients of a step's gates, in place of these.
      return input == 4 && output == 0;
    default:
      return false;
  }
}

}  // namespace cotan
