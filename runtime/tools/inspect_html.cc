// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/inspect_html.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "runtime/tools/json.h"
#include "runtime/tools/op_text.h"
#include "runtime/tools/page_template.h"
#include "runtime/tools/planned_method.h"
#include "serialization/metadata/graph_signature.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "serialization/schema/continuation.h"
#include "serialization/schema/op_kind.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::tools {
namespace {

using serialization::Method;
using serialization::Op;
using serialization::State;

// The module and the phase in Op.source: "aten.mm.default backward of layers.3.fc".
struct Origin {
  std::vector<std::string> module;
  bool is_backward = false;
};

Origin OriginOf(absl::string_view source) {
  constexpr absl::string_view kBackward = "backward of ";
  Origin origin;
  const size_t backward = source.rfind(kBackward);
  origin.is_backward = backward != absl::string_view::npos;
  if (origin.is_backward) source.remove_prefix(backward + kBackward.size());
  const absl::string_view last = source.substr(source.rfind(' ') + 1);
  const bool is_op = absl::StartsWith(last, "aten.") || absl::StartsWith(last, "prims.");
  if (!last.empty() && !is_op) origin.module = absl::StrSplit(last, '.');
  return origin;
}

// Writes rows and edges of a method's graph.
class GraphJson {
 public:
  GraphJson(const Program& program, const Method& method) : program_(program), method_(method) {
    for (int i = 0; i < method.inputs_size(); ++i) AddInput(i);
    for (const auto& read : method.state_reads()) reads_.emplace(read.value(), read.state());
    for (int i = 0; i < method.ops_size(); ++i) {
      for (const uint32_t input : method.ops(i).inputs()) AddRead(input);
      AddOp(i);
    }
    for (const auto& read : method.state_reads()) AddRead(read.value());
    for (const auto& update : method.state_updates()) {
      AddUse("update", absl::StrCat("state = %", update.value()), update.value(), StateName(update.state()),
             "mutation");
    }
    for (const auto& update : method.input_updates()) {
      const std::string name = program.InputName(method, static_cast<int>(update.input()));
      AddUse("update", absl::StrCat("argument = %", update.value()), update.value(), name, "mutation");
    }
    const int num_results = method.outputs_size() - static_cast<int>(method.num_saved());
    for (int i = 0; i < method.outputs_size(); ++i) {
      const std::string name = i < num_results ? program.OutputName(method, i) : "saved for the backward";
      AddUse("result", "result", method.outputs(i), name, "data");
    }
  }

  // Adds a row for a result that aliases an argument, and an edge from the argument if that is a row. The method does
  // not return such a result: the runtime makes it.
  void AddAlias(const std::string& argument, const std::string& result, const OutputAliasInfo& info) {
    const std::string label = info.ToString();
    const auto from = row_of_argument_.find(argument);
    if (from != row_of_argument_.end()) AddEdge(from->second, num_rows(), "alias", label);
    const std::string type = info.geometry.has_value() ? info.geometry->ToString() : "";
    AddRow({"result", "result", type, result, absl::StrCat("result \"", result, "\": ", label)});
  }

  std::string Text() const {
    return absl::StrCat("\"rows\": [", absl::StrJoin(rows_, ",\n"), "], \"edges\": [", absl::StrJoin(edges_, ",\n"),
                        "]");
  }

 private:
  struct Row {
    absl::string_view row_class;
    std::string kind;
    std::string type;
    std::string source;
    std::string text;
    int op = -1;
  };

  int num_rows() const { return static_cast<int>(rows_.size()); }
  std::string Type(uint32_t value) const { return TensorTypeText(method_.values(static_cast<int>(value)).type()); }
  const std::string& StateName(uint32_t state) const { return program_.state(static_cast<int>(state)).name(); }

  void AddRow(const Row& row) {
    const Origin origin = row.op < 0 ? Origin() : OriginOf(row.source);
    const auto append = [](std::string* out, const std::string& part) { absl::StrAppend(out, JsonString(part)); };
    rows_.push_back(absl::StrCat(
        "{\"class\": ", JsonString(row.row_class), ", \"number\": ", row.op < 0 ? "\"\"" : absl::StrCat(row.op),
        ", \"kind\": ", JsonString(row.kind), ", \"type\": ", JsonString(row.type),
        ", \"source\": ", JsonString(row.source), ", \"module\": [", absl::StrJoin(origin.module, ", ", append),
        "], \"phase\": ", JsonString(origin.is_backward ? "backward" : "forward"), ", \"text\": ", JsonString(row.text),
        "}"));
  }

  void AddEdge(int from, int to, absl::string_view kind, absl::string_view label) {
    edges_.push_back(absl::StrFormat("{\"from\": %d, \"to\": %d, \"kind\": %s, \"label\": %s}", from, to,
                                     JsonString(kind), JsonString(label)));
  }

  void AddInput(int index) {
    const uint32_t value = method_.inputs(index);
    const std::string name = program_.InputName(method_, index);
    row_of_value_[value] = num_rows();
    row_of_argument_.emplace(name, num_rows());
    AddRow({"input", absl::StrCat("argument %", value), Type(value), name,
            absl::StrCat("argument ", index, " \"", name, "\" = %", value, ": ", Type(value))});
  }

  // Adds a row for a value that is read from a state, before the first op that uses it.
  void AddRead(uint32_t value) {
    const auto read = reads_.find(value);
    if (read == reads_.end() || row_of_value_.contains(value)) return;
    const std::string& name = StateName(read->second);
    row_of_value_[value] = num_rows();
    row_of_argument_.emplace(name, num_rows());
    AddRow({"state", absl::StrCat("state %", value), Type(value), name,
            absl::StrCat("%", value, ": ", Type(value), " = state \"", name, "\"")});
  }

  void AddOp(int index) {
    const Op& op = method_.ops(index);
    absl::flat_hash_set<uint32_t> seen;
    for (const uint32_t input : op.inputs()) {
      if (seen.insert(input).second) AddEdge(row_of_value_[input], num_rows(), op.has_view() ? "view" : "data", "");
    }
    const std::string type = op.outputs_size() == 0 ? "" : Type(op.outputs(0));
    const std::string more = op.outputs_size() < 2 ? "" : absl::StrCat(" +", op.outputs_size() - 1);
    for (const uint32_t output : op.outputs()) row_of_value_[output] = num_rows();
    AddRow({"op", std::string(OpKindName(op.kind_case())), absl::StrCat(type, more), op.source(),
            absl::StrCat("op ", index, ", reads %", absl::StrJoin(op.inputs(), ", %"), ", writes %",
                         absl::StrJoin(op.outputs(), ", %"), "\n", StableOpText(method_, op)),
            index});
  }

  void AddUse(absl::string_view row_class, const std::string& kind, uint32_t value, const std::string& name,
              absl::string_view edge) {
    AddEdge(row_of_value_[value], num_rows(), edge, "");
    AddRow({row_class, kind, Type(value), name, absl::StrCat(kind, " \"", name, "\": %", value, ": ", Type(value))});
  }

  const Program& program_;
  const Method& method_;
  std::vector<std::string> rows_;
  std::vector<std::string> edges_;
  absl::flat_hash_map<uint32_t, uint32_t> reads_;  // state by value
  absl::flat_hash_map<uint32_t, int> row_of_value_;
  absl::flat_hash_map<std::string, int> row_of_argument_;
};

// Returns the text of the method's metadata, and adds the aliases between arguments and results to the graph.
std::string MetadataText(const Method& method, GraphJson& graph) {
  if (method.metadata().input_info_size() == 0 && method.metadata().output_info_size() == 0) return "";
  const absl::StatusOr<ViewAndMutationMeta> metadata = ViewAndMutationMeta::FromProto(method.metadata());
  const absl::StatusOr<GraphSignature> signature = GraphSignature::FromProto(method.signature());
  if (!metadata.ok() || !signature.ok()) return "";
  const std::vector<std::string> inputs = signature->InputNames();
  for (size_t i = 0; i < signature->user_outputs.size(); ++i) {
    const OutputAliasInfo& output = metadata->output(static_cast<int>(i));
    if (!IsAliasOfInput(output.output_type)) continue;
    const auto base = static_cast<size_t>(*output.base_index);
    if (base < inputs.size()) graph.AddAlias(inputs[base], signature->user_outputs[i], output);
  }
  return metadata->ToString(inputs, signature->user_outputs);
}

std::string StepJson(const StepCost& step, size_t index, const ProfiledStep* timed) {
  return absl::StrCat("{\"step\": ", index, ", \"op\": ", step.op, ", \"name\": ", JsonString(step.name),
                      ", \"source\": ", JsonString(step.source), ", \"bytes\": ", step.work.bytes,
                      ", \"flops\": ", step.work.flops,
                      timed == nullptr ? "" : absl::StrFormat(", \"us\": %.3f", timed->min_us), "}");
}

absl::StatusOr<std::string> PlanJson(const Program& program, const Method& method,
                                     const std::vector<ProfiledStep>* profile, const KernelRegistry* kernels) {
  const absl::StatusOr<PlannedMethod> plan = PlanMethod(program.artifact(), method, kernels);
  if (!plan.ok()) return absl::StrCat("{\"error\": ", JsonString(plan.status().message()), "}");
  if (profile != nullptr && profile->size() != plan->steps.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the profile of method '", method.name(), "' has ", profile->size(), " steps, its plan has ",
                     plan->steps.size(), "; measure this artifact with `cotan bench --profile=FILE` on the CPU"));
  }
  std::vector<std::string> steps;
  for (size_t i = 0; i < plan->steps.size(); ++i) {
    steps.push_back(StepJson(plan->steps[i], i, profile == nullptr ? nullptr : &(*profile)[i]));
  }
  const auto append_buffer = [](std::string* out, const PlacedBuffer& buffer) {
    absl::StrAppend(out, "[", buffer.offset, ",", buffer.bytes, ",", buffer.first, ",", buffer.last, "]");
  };
  std::string sizes;
  for (size_t i = 0; i < plan->symbols.size(); ++i) {
    absl::StrAppend(&sizes, program.artifact().symbols(static_cast<int>(i)).name(), " = ", plan->symbols[i], ", ");
  }
  return absl::StrCat("{\"arena\": ", plan->arena_bytes, ", \"peak\": ", plan->peak_bytes,
                      ", \"sizes\": ", JsonString(sizes), ", \"steps\": [", absl::StrJoin(steps, ",\n"),
                      "], \"buffers\": [", absl::StrJoin(plan->buffers, ",", append_buffer), "], \"live\": [",
                      absl::StrJoin(plan->live_bytes, ","), "]}");
}

std::string SignatureText(const Program& program, const Method& method) {
  std::string text = absl::StrCat(method.name(), "(");
  const auto type_of = [&](uint32_t value) { return TensorTypeText(method.values(static_cast<int>(value)).type()); };
  for (int i = 0; i < method.inputs_size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", program.InputName(method, i), ": ", type_of(method.inputs(i)));
  }
  text += ") -> (";
  const int num_results = method.outputs_size() - static_cast<int>(method.num_saved());
  for (int i = 0; i < num_results; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", program.OutputName(method, i), ": ", type_of(method.outputs(i)));
  }
  text += ")";
  if (method.has_continuation()) {
    absl::StrAppend(&text, "\ncomputes sizes for ", method.continuation().method(), ", which goes on");
  }
  if (!method.backward_method().empty()) {
    absl::StrAppend(&text, "\nbackward: ", method.backward_method(), ", ", method.num_saved(), " saved values");
  }
  return absl::StrCat(text, "\n", method.ops_size(), " ops, reads ", method.state_reads_size(), " states, updates ",
                      method.state_updates_size());
}

std::string StateJson(const State& state) {
  const absl::StatusOr<StridedLayout> layout = DenseLayout(state.type(), {});
  const int64_t bytes =
      layout.ok() ? NumElements(layout->sizes) * static_cast<int64_t>(ByteSize(ToDType(state.type().dtype()))) : 0;
  std::vector<std::string> notes;
  if (state.requires_grad()) notes.push_back("trained");
  if (!state.owner().empty()) notes.push_back(absl::StrCat("of ", state.owner()));
  if (!state.has_segment()) notes.push_back(absl::StrCat("= ", state.fill()));
  return absl::StrCat("{\"name\": ", JsonString(state.name()),
                      ", \"role\": ", JsonString(absl::AsciiStrToLower(State::Role_Name(state.role()))),
                      ", \"type\": ", JsonString(TensorTypeText(state.type())), ", \"bytes\": ", bytes,
                      ", \"notes\": ", JsonString(absl::StrJoin(notes, ", ")), "}");
}

// Returns the measured steps of a method; none if it was not measured. The profile of a method with sizing methods has
// their steps as well, whose names begin with that of their method.
std::optional<std::vector<ProfiledStep>> StepsOf(const Program& program, const Method& method,
                                                 const std::map<std::string, std::vector<ProfiledStep>>& profile) {
  const bool is_alone = IsCallable(method) && SizingMethodsOf(program.artifact(), method).empty();
  const auto own = profile.find(method.name());
  if (is_alone) return own == profile.end() ? std::nullopt : std::make_optional(own->second);
  std::vector<ProfiledStep> steps;
  for (const auto& [called, measured] : profile) {
    for (const ProfiledStep& step : measured) {
      if (absl::StartsWith(step.name, absl::StrCat("method '", method.name(), "',"))) steps.push_back(step);
    }
  }
  return steps.empty() ? std::nullopt : std::make_optional(std::move(steps));
}

}  // namespace

absl::StatusOr<std::string> InspectHtml(const Program& program, absl::string_view file,
                                        const std::map<std::string, std::vector<ProfiledStep>>& profile,
                                        const KernelRegistry* kernels) {
  std::vector<std::string> methods;
  for (const Method& method : program.artifact().methods()) {
    const std::optional<std::vector<ProfiledStep>> timed = StepsOf(program, method, profile);
    COTAN_ASSIGN_OR_RETURN(const std::string plan,
                           PlanJson(program, method, timed.has_value() ? &*timed : nullptr, kernels));
    GraphJson graph(program, method);
    const std::string metadata = MetadataText(method, graph);
    methods.push_back(absl::StrCat(
        "{\"name\": ", JsonString(method.name()), ", \"signature\": ", JsonString(SignatureText(program, method)),
        ", \"meta\": ", JsonString(metadata), ",\n", graph.Text(), ",\n\"plan\": ", plan, "}"));
  }
  std::vector<std::string> states;
  for (const State& state : program.artifact().states()) states.push_back(StateJson(state));
  const std::string about =
      absl::StrCat("format ", program.artifact().format_version(), ", ", program.size(), " bytes, by ",
                   program.artifact().producer(), "; ", states.size(), " states, ", methods.size(), " methods");
  const std::string data =
      absl::StrCat("{\"file\": ", JsonString(file), ", \"about\": ", JsonString(about), ",\n\"states\": [",
                   absl::StrJoin(states, ",\n"), "],\n\"methods\": [", absl::StrJoin(methods, ",\n"), "]}");
  return absl::StrReplaceAll(PageTemplate(), {{"@DATA@", data}});
}

}  // namespace cotan::tools
