// SPDX-License-Identifier: Apache-2.0

#include "aot/linking/fuse_linked.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/emit/emit.h"
#include "aot/emit/import_method.h"
#include "aot/fusion/fusion.h"
#include "aot/ir/pass.h"
#include "aot/ir/prim_node.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"
#include "linking/fingerprint.h"
#include "linking/link_passes.h"

namespace cotan::aot {
namespace {

using serialization::Artifact;
using serialization::Method;

// Lets expressions read the source of a copy. LinkBuilder makes values dense between programs; expressions read any
// layout.
absl::StatusOr<bool> BypassCopies(Graph& graph) {
  absl::flat_hash_map<ValueId, ValueId> source_of;
  for (const Node& node : graph.nodes()) {
    if (IsPrim(node, PrimOp::kCopy)) source_of.emplace(node.outputs[0], OperandOf(node, "x"));
  }
  bool changed = false;
  for (Node& node : graph.nodes()) {
    if (node.op != kExprOp) continue;
    for (Argument& argument : node.arguments) {
      const auto found = source_of.find(std::get<Use>(argument).value);
      if (found == source_of.end()) continue;
      argument = Use{found->second};
      changed = true;
    }
  }
  return changed;
}

absl::StatusOr<Method> Fuse(const Method& method) {
  absl::StatusOr<Graph> graph = ImportMethod(method);
  if (absl::IsUnimplemented(graph.status())) return method;
  COTAN_RETURN_IF_ERROR(graph.status());
  PassPipeline pipeline("link");
  pipeline.Add("copies", BypassCopies).Add("dead_code", EliminateDeadCode).Add("fusion", FuseExpressions);
  COTAN_RETURN_IF_ERROR(pipeline.Run(*graph).status());
  COTAN_ASSIGN_OR_RETURN(Method fused, Emit(*graph, {}));
  *fused.mutable_linked() = method.linked();
  AccumulateAsSoonAsPossible(fused);
  return fused;
}

}  // namespace

absl::StatusOr<Artifact> FuseLinked(const Artifact& captures) {
  Artifact fused = captures;
  for (Method& method : *fused.mutable_methods()) {
    if (!method.has_linked()) {
      return absl::InvalidArgumentError(absl::StrCat("method '", method.name(), "' is not a linked method"));
    }
    COTAN_ASSIGN_OR_RETURN(method, Fuse(method));
  }
  return fused;
}

absl::Status CheckSources(const Artifact& captures, absl::Span<const Artifact* const> programs) {
  absl::flat_hash_set<uint64_t> known;
  for (const Artifact* program : programs) {
    for (int i = 0; i < program->methods_size(); ++i) known.insert(MethodFingerprint(*program, i));
  }
  std::vector<std::string> missing;
  for (const Method& method : captures.methods()) {
    for (const serialization::LinkedSource& source : method.linked().sources()) {
      if (known.contains(source.fingerprint())) continue;
      missing.push_back(absl::StrCat("'", source.method(), "' in '", method.name(), "'"));
    }
  }
  if (missing.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("no given artifact has these methods: ", absl::StrJoin(missing, ", "),
                   ". Give all artifacts of the recorded backwards, or record again with the new ones"));
}

}  // namespace cotan::aot
