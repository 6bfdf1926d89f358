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

// Ops of the trace of a vector-Jacobian product (vjp.h), whose result is their operand 0
// (tangent_markers.h):
//   cotan.tangent.default(t, {f0, ..., fn-1}, i, order)
//     The tangent i of n, of the backward of this order (1: the function's own). It is defined if fi
//     is true. Without flags it is always defined.
//   cotan.gate.default(g), cotan.gate.default(g, v)
//     A gradient that goes from one node of the autograd graph to another. The second form is the
//     derivative of a gate with the result v: defined if g and v are, since eager mode has no node
//     for a v that is undefined.
inline constexpr absl::string_view kMarkedTangent = "cotan.tangent.default";
inline constexpr absl::string_view kGradientGate = "cotan.gate.default";

// Removes all kMaterializeGrads, kMarkedTangent and kGradientGate nodes: uses of the results become
// uses of the operands.
void RemoveGradientMarkers(Graph& joint);

// Makes the backward of `joint`, a traced joint graph with n tangents, compute the gradients of
// LibTorch's engine when only some of the tangents are defined. The engine does not run nodes that
// no defined tangent reaches; a graph does, and zeros in the place of an undefined tangent may
// become NaN there.
//
// Each gradient has a condition on the flags of the tangents that reach it: it is defined if any of
// them is. Where an op reads values with different conditions:
//   - a sum of two gradients is the defined one, if only one is;
//   - any other op reads zeros in the place of an undefined value, as the backward formulas of
//     nodes with several outputs do.
// Definedness is an input of the graph: n flags, bool[] (InputKind::kTangent, n + t for tangent t),
// are added after the tangents if any op reads one. At least one flag is true.
//
// If the graph is a vector-Jacobian product, its forward has gradients, too, whose flags are
// arguments of the function (kMarkedTangent). A gradient of order k depends on flags of all orders
// up to k, by gates. In an op that reads gradients of several orders, those below the highest are
// values that a node has saved; they do not decide whether the result is defined. A result that may
// be undefined although a tangent that reaches it is defined is zeros then.
//
// If n < 2 and there is no kMarkedTangent, the graph only loses kMaterializeGrads.
absl::Status GuardUndefinedTangents(Graph& joint);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_UNDEFINED_TANGENTS_H_
