// Tangents that are undefined: contributions to gradients that do not exist.
#ifndef COTAN_AOT_AOTAUTOGRAD_UNDEFINED_TANGENTS_H_
#define COTAN_AOT_AOTAUTOGRAD_UNDEFINED_TANGENTS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// An op of traced joint graphs: returns its operands, one by one. They are the
// gradients that enter a node of autograd which makes zeros of undefined ones if any
// is defined (torch::autograd::Function).
inline constexpr absl::string_view kMaterializeGrads = "cotan.materialize_grads.default";

// Replaces results of kMaterializeGrads by its operands.
void RemoveMaterializeGrads(Graph& joint);

// Makes the backward of `joint`, a traced joint graph, compute what LibTorch's
// engine does if only some of its n tangents are defined. The engine does not run
// nodes that no defined tangent reaches, but the graph does, and a zero in the place
// of an undefined tangent may have become NaN there.
//
// For each value let S be the tangents that reach it. Where an op reads values of
// different S, one of which may exist without the other:
//   - a sum of two gradients is the one that exists, if only one does;
//   - any other op reads zeros in the place of what does not exist, as formulas of
//     nodes with several outputs do.
// What exists is known by n flags, bool[] (InputKind::kTangent, n + t for tangent t),
// which are added behind the tangents if any op reads one. At least one of them is
// true. The graph is as it was if n < 2, but for kMaterializeGrads, which is removed.
absl::Status GuardUndefinedTangents(Graph& joint);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_UNDEFINED_TANGENTS_H_
