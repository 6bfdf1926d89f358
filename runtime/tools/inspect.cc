// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/inspect.h"

#include <map>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "runtime/execution/effect_kernel.h"
#include "serialization/metadata/graph_signature.h"
#include "serialization/metadata/tree_spec.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "serialization/schema/continuation.h"
#include "serialization/schema/op_kind.h"
#include "serialization/schema/tensor_type.h"
#include "serialization/text/text.h"

namespace cotan::tools {
namespace {

using serialization::Method;
using serialization::Op;
using serialization::State;
using serialization::SymbolProto;

int64_t BytesOf(const serialization::TensorType& type) {
  const absl::StatusOr<StridedLayout> layout = DenseLayout(type, {});
  return layout.ok() ? NumElements(layout->sizes) * static_cast<int64_t>(ByteSize(ToDType(type.dtype()))) : 0;
}

std::string StatesText(const Program& program) {
  int64_t total = 0;
  std::string lines;
  for (const State& state : program.artifact().states()) {
    const int64_t bytes = BytesOf(state.type());
    total += bytes;
    std::vector<std::string> notes;
    if (state.requires_grad()) notes.push_back("trained");
    if (!state.owner().empty()) notes.push_back(absl::StrCat("of ", state.owner()));
    if (!state.persistent()) notes.push_back("not in checkpoints");
    if (!state.has_segment()) notes.push_back(absl::StrCat("= ", state.fill()));
    if (state.aliases_size() != 0) notes.push_back(absl::StrCat("also ", absl::StrJoin(state.aliases(), ", ")));
    absl::StrAppend(
        &lines, absl::StrFormat("  %-20s %s  %s  %d bytes%s%s\n", absl::AsciiStrToLower(State::Role_Name(state.role())),
                                state.name(), TensorTypeText(state.type()), bytes, notes.empty() ? "" : "  ",
                                absl::StrJoin(notes, ", ")));
  }
  return absl::StrCat("states: ", program.artifact().states_size(), ", ", total, " bytes\n", lines);
}

std::string SignatureText(const Program& program, const Method& method) {
  std::vector<std::string> arguments;
  std::vector<std::string> results;
  const auto type_of = [&](uint32_t value) { return TensorTypeText(method.values(static_cast<int>(value)).type()); };
  for (int i = 0; i < NumArguments(program.artifact(), method); ++i) {
    arguments.push_back(absl::StrCat(program.InputName(method, i), ": ", type_of(method.inputs(i))));
  }
  const int num_results = method.outputs_size() - static_cast<int>(method.num_saved());
  for (int i = 0; i < num_results; ++i) {
    results.push_back(absl::StrCat(program.OutputName(method, i), ": ", type_of(method.outputs(i))));
  }
  return absl::StrCat(method.name(), "(", absl::StrJoin(arguments, ", "), ") -> (", absl::StrJoin(results, ", "), ")");
}

std::string OpsText(const Method& method) {
  std::map<std::string, int> counts;
  for (const Op& op : method.ops()) ++counts[std::string(OpKindName(op.kind_case()))];
  std::string text = absl::StrCat("  ops: ", method.ops_size());
  for (const auto& [name, count] : counts) absl::StrAppend(&text, ", ", count, " ", name);
  return text + "\n";
}

std::string EffectsText(const Method& method) {
  std::vector<std::string> effects;
  for (const Op& op : method.ops()) {
    if (!op.has_effect()) continue;
    effects.push_back(absl::StrCat(EffectKindName(KindOf(op.effect())), " '", op.effect().name(), "'"));
  }
  return effects.empty() ? "" : absl::StrCat("  effects, in order: ", absl::StrJoin(effects, ", "), "\n");
}

std::string UpdatesText(const Program& program, const Method& method) {
  if (method.state_updates_size() == 0) return "";
  const auto append_name = [&](std::string* out, const serialization::StateUpdate& update) {
    absl::StrAppend(out, program.state(static_cast<int>(update.state())).name());
  };
  return absl::StrCat("  updates: ", absl::StrJoin(method.state_updates(), ", ", append_name), "\n");
}

std::string MetadataText(const Method& method) {
  if (method.metadata().input_info_size() == 0 && method.metadata().output_info_size() == 0) return "";
  // VerifyArtifact() has checked both.
  const absl::StatusOr<ViewAndMutationMeta> metadata = ViewAndMutationMeta::FromProto(method.metadata());
  const absl::StatusOr<GraphSignature> signature = GraphSignature::FromProto(method.signature());
  if (!metadata.ok() || !signature.ok()) return "";
  return absl::StrCat("  ViewAndMutationMeta:\n",
                      metadata->ToString(signature->InputNames(), signature->user_outputs, "    "));
}

// Returns how arguments and results are nested; "" if both are flat tuples or not known.
std::string StructureText(const Method& method) {
  // VerifyArtifact() has checked it.
  const absl::StatusOr<GraphSignature> signature = GraphSignature::FromProto(method.signature());
  if (!signature.ok()) return "";
  const auto text_of = [](absl::string_view what, const std::optional<TreeSpec>& spec) -> std::string {
    if (!spec.has_value() || *spec == TreeSpec::FlatTuple(spec->num_leaves())) return "";
    return absl::StrCat("  structure of ", what, ": ", spec->ToString(), "\n");
  };
  return absl::StrCat(text_of("arguments", signature->in_spec), text_of("results", signature->out_spec));
}

// Returns how a sizing method goes on, with the maximum of each count, and which of them run before a method; "" if no
// size depends on data.
std::string SizingText(const Program& program, const Method& method) {
  std::vector<std::string> before;
  for (const int index : SizingMethodsOf(program.artifact(), method)) before.push_back(program.method(index).name());
  std::string text;
  if (!before.empty()) text = absl::StrCat("  sizes from: ", absl::StrJoin(before, ", "), "\n");
  if (!method.has_continuation()) return text;
  std::vector<std::string> counts;
  for (const serialization::ContinuedInput& input : method.continuation().inputs()) {
    if (input.count() == 0) continue;
    const auto rows = static_cast<int>(method.outputs(static_cast<int>(input.index())));
    counts.push_back(absl::StrCat(program.OutputName(method, static_cast<int>(input.count()) - 1), " (at most ",
                                  method.values(rows).type().sizes(0), ")"));
  }
  return absl::StrCat(text, "  counts ", absl::StrJoin(counts, ", "), " for ", method.continuation().method(), "\n");
}

// Returns how many saved values wait on the host beside a GPU; "" if none does.
std::string HostText(const Method& method) {
  int count = 0;
  for (int i = method.outputs_size() - static_cast<int>(method.num_saved()); i < method.outputs_size(); ++i) {
    count += method.values(static_cast<int>(method.outputs(i))).on_host() ? 1 : 0;
  }
  return count == 0 ? "" : absl::StrCat(", ", count, " of them on the host");
}

std::string MethodSummary(const Program& program, const Method& method) {
  std::string text = absl::StrCat("\n", SignatureText(program, method), "\n", OpsText(method), EffectsText(method),
                                  UpdatesText(program, method));
  if (!method.rng_blocks().empty()) absl::StrAppend(&text, "  random blocks per call: ", method.rng_blocks(), "\n");
  if (!method.backward_method().empty()) {
    absl::StrAppend(&text, "  backward: ", method.backward_method(), ", ", method.num_saved(), " saved values",
                    HostText(method), "\n");
  }
  if (!method.backward_refusal().empty()) {
    absl::StrAppend(&text, "  no backward: ", method.backward_refusal(), "\n");
  }
  if (!method.differentiable_backward().empty()) {
    absl::StrAppend(&text, "  differentiable backward: ", method.differentiable_backward(), "\n");
  }
  return absl::StrCat(text, SizingText(program, method), StructureText(method), MetadataText(method));
}

}  // namespace

std::string InspectText(const Program& program, bool with_program) {
  const serialization::Artifact& artifact = program.artifact();
  std::string text = absl::StrCat("format ", artifact.format_version(), ", ", program.size(), " bytes",
                                  artifact.producer().empty() ? "" : ", by ", artifact.producer(), "\n");
  for (int i = 0; i < artifact.symbols_size(); ++i) {
    const SymbolProto& symbol = artifact.symbols(i);
    absl::StrAppend(&text, "s", i, " = ", symbol.name(), " in [", symbol.min(), ", ", symbol.max(), "]\n");
  }
  absl::StrAppend(&text, StatesText(program));
  absl::StrAppend(&text, "recorded runs: ", artifact.references_size(), "\n");
  for (const Method& method : artifact.methods()) {
    absl::StrAppend(&text, MethodSummary(program, method));
    if (with_program) absl::StrAppend(&text, MethodText(artifact, method));
  }
  return text;
}

}  // namespace cotan::tools
