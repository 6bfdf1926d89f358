// SPDX-License-Identifier: Apache-2.0

// ViewAndMutationMeta::ToString().
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "serialization/metadata/view_and_mutation_meta.h"

namespace cotan {
namespace {

using Names = absl::Span<const std::string>;

// Returns ` "conv.weight"`, or "" without a name.
std::string Quoted(Names names, size_t i) {
  if (i >= names.size() || names[i].empty()) return "";
  return absl::StrCat(" \"", absl::CEscape(names[i]), "\"");
}

// Returns "3", "3-5".
std::string Range(size_t first, size_t last) {
  return first == last ? absl::StrCat(first) : absl::StrCat(first, "-", last);
}

std::string Range(SavedSlice range) {
  return Range(static_cast<size_t>(range.begin), static_cast<size_t>(range.end - 1));
}

class Writer {
 public:
  explicit Writer(absl::string_view indent) : indent_(indent) {}

  template <typename... Parts>
  void Line(const Parts&... parts) {
    absl::StrAppend(&text_, indent_, parts..., "\n");
  }

  std::string Take() { return std::move(text_); }

 private:
  absl::string_view indent_;
  std::string text_;
};

std::string Headline(const ViewAndMutationMetaFields& facts) {
  std::vector<std::string> parts = {facts.is_train ? "training" : "inference"};
  if (facts.keep_input_mutations) parts.push_back("the program may write inputs itself");
  if (facts.deterministic.has_value()) {
    parts.push_back(*facts.deterministic ? "deterministic" : "not deterministic");
  }
  if (facts.grad_enabled_mutation.has_value()) {
    parts.push_back(absl::StrCat("leaves gradients ", *facts.grad_enabled_mutation ? "enabled" : "disabled"));
  }
  return absl::StrJoin(parts, "; ");
}

std::string DescribeInput(const ViewAndMutationMetaFields& facts, size_t i) {
  const auto contains = [i](const std::vector<int>& indexes) {
    return std::binary_search(indexes.begin(), indexes.end(), static_cast<int>(i));
  };
  std::string text = facts.input_info[i].ToString();
  if (contains(facts.static_input_indices)) absl::StrAppend(&text, ", static");
  if (contains(facts.indices_of_inputs_to_detach)) absl::StrAppend(&text, ", detached");
  if (contains(facts.backward_mutated_inputs)) absl::StrAppend(&text, ", changed by the backward");
  return text;
}

// Adjacent unmutated inputs with the same text share a line.
void WriteInputs(const ViewAndMutationMetaFields& facts, Names names, Writer& writer) {
  const size_t count = facts.input_info.size();
  for (size_t first = 0; first < count;) {
    const std::string text = DescribeInput(facts, first);
    size_t last = first;
    while (!facts.input_info[first].is_mutated() && last + 1 < count && DescribeInput(facts, last + 1) == text) ++last;
    if (first == last) {
      writer.Line("input ", first, Quoted(names, first), ": ", text);
    } else {
      const std::string from = Quoted(names, first);
      writer.Line("inputs ", Range(first, last), from, from.empty() ? "" : " ...", Quoted(names, last), ": ", text);
    }
    first = last + 1;
  }
}

void WriteOutputs(const ViewAndMutationMetaFields& facts, Names names, Writer& writer) {
  for (size_t i = 0; i < facts.output_info.size(); ++i) {
    writer.Line("output ", i, Quoted(names, i), ": ", facts.output_info[i].ToString());
  }
  if (facts.num_intermediate_bases > 0) {
    writer.Line("intermediate bases returned: ", facts.num_intermediate_bases);
  }
}

void WriteTangents(const ViewAndMutationMetaFields& facts, Writer& writer) {
  for (size_t i = 0; i < facts.tangents.size(); ++i) {
    const TangentMeta& tangent = facts.tangents[i];
    writer.Line("tangent ", i, " of ", ToString(tangent.source), ": ", tangent.expected.ToString());
  }
}

void WriteWrappers(absl::string_view what, const std::vector<FlatMeta>& metas, Writer& writer) {
  for (size_t i = 0; i < metas.size(); ++i) {
    if (WrapperTypeName(metas[i]).empty()) continue;
    writer.Line(what, " ", i, " is ", ToString(metas[i]));
  }
}

void WriteEffects(const ViewAndMutationMetaFields& facts, Writer& writer) {
  if (!facts.tokens.empty()) writer.Line("effects: ", absl::StrJoin(facts.tokens, ", "));
  if (facts.num_backward_tokens > 0) {
    writer.Line("effect tokens in the backward: ", facts.num_backward_tokens);
  }
}

void WriteSaved(const ViewAndMutationMetaFields& facts, const DerivedMetadata& derived, Writer& writer) {
  if (!facts.saved.has_value()) return;
  const SavedForBackward& saved = *facts.saved;
  std::string text = absl::StrCat(saved.num_tensors, saved.num_tensors == 1 ? " tensor" : " tensors");
  if (saved.num_tensors > 0) {
    absl::StrAppend(&text, " (forward returns ", Range(derived.tensors_saved_for_backwards), ")");
  }
  if (saved.num_tensors_without_version_check > 0) {
    absl::StrAppend(&text, ", ", saved.num_tensors_without_version_check, " without version check");
  }
  if (!saved.donated.empty()) {
    absl::StrAppend(&text, ", donated: ", absl::StrJoin(saved.donated, " "));
  }
  writer.Line("saved for the backward: ", text);
}

}  // namespace

std::string ViewAndMutationMeta::ToString(Names input_names, Names output_names, absl::string_view indent) const {
  Writer writer(indent);
  writer.Line(Headline(facts_));
  WriteInputs(facts_, input_names, writer);
  WriteOutputs(facts_, output_names, writer);
  WriteTangents(facts_, writer);
  WriteWrappers("input", facts_.input_wrappers, writer);
  WriteWrappers("forward return", facts_.forward_return_wrappers, writer);
  WriteWrappers("tangent", facts_.tangent_wrappers, writer);
  if (facts_.subclass_meta.has_value()) {
    WriteWrappers("gradient of input", facts_.subclass_meta->grad_inputs, writer);
  }
  WriteEffects(facts_, writer);
  WriteSaved(facts_, derived_, writer);
  return writer.Take();
}

}  // namespace cotan
