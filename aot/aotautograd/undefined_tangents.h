// SPDX-License-Identifier: Apache-2.0

// Makes joint graphs correct when some of their tangents are undefined, that is, when the
// contributions of some outputs to the gradients do not exist.
#ifndef COTAN_AOT_AOTAUTOGRAD_UNDEFINED_TANGENTS_H_
#define COTAN_AOT_AOTAUTOGRAD_UNDEFINED_TANGENTS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// An op of traced joint graphs with n operands and n results: result i is operand i. The operands
// are the gradients that enter a torch::autograd::Function, which replaces undefined ones by zeros
// if any is defined (materialize_grads).
inline constexpr absl::string_view kMaterializeGrads = "cotan.materialize_grads.default";

// Removes all kMaterializeGrads nodes: uses of the results become uses of the operands.
void RemoveMaterializeGrads(Graph& joint);

// Makes the backward of `joint`, a traced joint graph with n tangents, compute the gradients of
// LibTorch's engine when only some of the tangents are defined. The engine does not run nodes that
// no defined tangent reaches; a graph does, and zeros in the place of an undefined tangent may
// become NaN there.
//
// Let S(v) be the set of tangents that reach value v; v is defined if any tangent of S(v) is. Where
// an op reads values with different S, of which one may be defined and another not:
//   - a sum of two gradients is the defined one, if only one is;
//   - any other op reads zeros in the place of an undefined value, as the backward formulas of
//     nodes with several outputs do.
// Definedness is an input of the graph: n flags, bool[] (InputKind::kTangent, n + t for tangent t),
// are added after the tangents if any op reads one. At least one flag is true. If n < 2 the graph
// only loses kMaterializeGrads.
absl::Status GuardUndefinedTangents(Graph& joint);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_UNDEFINED_TANGENTS_H_
