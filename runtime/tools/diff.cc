// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/diff.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "runtime/tools/edit_script.h"
#include "runtime/tools/op_text.h"
#include "runtime/tools/planned_method.h"
#include "serialization/metadata/graph_signature.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "serialization/schema/tensor_type.h"
#include "serialization/text/text.h"

namespace cotan::tools {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;
using serialization::State;

// Returns the "-" and "+" lines of two lists, each with `indent` in front.
std::string ListDiff(const std::vector<std::string>& a, const std::vector<std::string>& b, absl::string_view indent) {
  std::string text;
  size_t i = 0;
  size_t j = 0;
  const auto append_until = [&](size_t end_a, size_t end_b) {
    for (; i < end_a; ++i) absl::StrAppend(&text, indent, "- ", a[i], "\n");
    for (; j < end_b; ++j) absl::StrAppend(&text, indent, "+ ", b[j], "\n");
  };
  for (const auto& [in_a, in_b] : CommonSubsequence(a, b)) {
    append_until(static_cast<size_t>(in_a), static_cast<size_t>(in_b));
    ++i;
    ++j;
  }
  append_until(a.size(), b.size());
  return text;
}

std::string Section(absl::string_view title, const std::string& lines) {
  return lines.empty() ? "" : absl::StrCat(title, "\n", lines);
}

std::vector<std::string> SymbolLines(const Artifact& artifact) {
  std::vector<std::string> lines;
  for (const auto& symbol : artifact.symbols()) {
    lines.push_back(absl::StrCat(symbol.name(), " in [", symbol.min(), ", ", symbol.max(), "]"));
  }
  return lines;
}

std::string StateLine(const Program& program, const State& state) {
  const std::string content =
      state.has_segment() ? absl::StrFormat("bytes with CRC-32C %08x",
                                            program.artifact().segments(static_cast<int>(state.segment())).crc32c())
                          : absl::StrCat("filled with ", state.fill());
  return absl::StrCat(absl::AsciiStrToLower(State::Role_Name(state.role())), " ", state.name(), " ",
                      TensorTypeText(state.type()), ", ", content, state.requires_grad() ? ", trained" : "",
                      state.owner().empty() ? "" : ", of ", state.owner(),
                      state.persistent() ? "" : ", not in checkpoints", state.aliases().empty() ? "" : ", also ",
                      absl::StrJoin(state.aliases(), ", "));
}

// Returns whether states of equal lines have different bytes all the same.
bool HasOtherBytes(const Program& a, const State& in_a, const Program& b, const State& in_b) {
  return in_a.has_segment() && in_b.has_segment() && a.segment(in_a.segment()) != b.segment(in_b.segment());
}

std::string StatesDiff(const Program& a, const Program& b) {
  std::string text;
  for (const State& state : a.artifact().states()) {
    const absl::StatusOr<int> other = b.FindState(state.name());
    if (!other.ok()) {
      absl::StrAppend(&text, "  - ", StateLine(a, state), "\n");
      continue;
    }
    const std::string line_a = StateLine(a, state);
    const std::string line_b = StateLine(b, b.state(*other));
    if (line_a != line_b) {
      absl::StrAppend(&text, "  - ", line_a, "\n  + ", line_b, "\n");
    } else if (HasOtherBytes(a, state, b, b.state(*other))) {
      absl::StrAppend(&text, "  ~ ", line_a, ": other bytes\n");
    }
  }
  for (const State& state : b.artifact().states()) {
    if (!a.FindState(state.name()).ok()) absl::StrAppend(&text, "  + ", StateLine(b, state), "\n");
  }
  return text;
}

// A method as lists of lines that do not depend on numbers of values and states.
class MethodLines {
 public:
  MethodLines(const Program& program, const Method& method) : program_(program), method_(method) {}

  std::vector<std::string> Signature() const {
    std::vector<std::string> lines;
    for (int i = 0; i < method_.inputs_size(); ++i) {
      lines.push_back(absl::StrCat("input ", program_.InputName(method_, i), ": ", Type(method_.inputs(i))));
    }
    const int num_results = method_.outputs_size() - static_cast<int>(method_.num_saved());
    for (int i = 0; i < method_.outputs_size(); ++i) {
      const std::string name =
          i < num_results ? absl::StrCat("result ", program_.OutputName(method_, i)) : "saved value";
      lines.push_back(absl::StrCat(name, ": ", Type(method_.outputs(i))));
    }
    for (const auto& update : method_.state_updates()) {
      lines.push_back(absl::StrCat("updates ", program_.state(static_cast<int>(update.state())).name()));
    }
    for (const auto& update : method_.input_updates()) {
      lines.push_back(absl::StrCat("writes input ", program_.InputName(method_, static_cast<int>(update.input()))));
    }
    return lines;
  }

  std::vector<std::string> Ops() const {
    std::vector<std::string> lines;
    for (const Op& op : method_.ops()) lines.push_back(StableOpText(method_, op));
    return lines;
  }

  std::vector<std::string> Metadata() const {
    const absl::StatusOr<ViewAndMutationMeta> metadata = ViewAndMutationMeta::FromProto(method_.metadata());
    const absl::StatusOr<GraphSignature> signature = GraphSignature::FromProto(method_.signature());
    if (!metadata.ok() || !signature.ok()) return {};
    return absl::StrSplit(metadata->ToString(signature->InputNames(), signature->user_outputs), '\n',
                          absl::SkipEmpty());
  }

  std::vector<std::string> Plan() const {
    const absl::StatusOr<PlannedMethod> plan = PlanMethod(program_.artifact(), method_);
    if (!plan.ok()) return {absl::StrCat("no plan: ", plan.status().message())};
    return {absl::StrCat(plan->steps.size(), " steps, arena ", plan->arena_bytes, " bytes, ", plan->peak_bytes,
                         " alive at once, without scratch of kernels")};
  }

 private:
  std::string Type(uint32_t value) const { return TensorTypeText(method_.values(static_cast<int>(value)).type()); }

  const Program& program_;
  const Method& method_;
};

// Compares which values ops, results and updates use, once counterparts of ops are known.
class OperandDiff {
 public:
  OperandDiff(const Program& a, const Method& method_a, const Program& b, const Method& method_b)
      : a_(a), b_(b), method_a_(method_a), method_b_(method_b) {
    for (int i = 0; i < std::min(method_a.inputs_size(), method_b.inputs_size()); ++i) {
      counterpart_[method_a.inputs(i)] = method_b.inputs(i);
    }
    for (const auto& read : method_a.state_reads()) {
      for (const auto& other : method_b.state_reads()) {
        if (NameOf(a_, read.state()) == NameOf(b_, other.state())) counterpart_[read.value()] = other.value();
      }
    }
  }

  // Returns the lines of the ops, which have these texts.
  std::string Ops(const std::vector<std::string>& texts_a, const std::vector<std::string>& texts_b) {
    std::string text;
    int i = 0;
    int j = 0;
    const auto append_until = [&](int end_a, int end_b) {
      for (; i < end_a; ++i) AppendOp("-", i, texts_a, text);
      for (; j < end_b; ++j) AppendOp("+", j, texts_b, text);
    };
    for (const auto& [in_a, in_b] : CommonSubsequence(texts_a, texts_b)) {
      append_until(in_a, in_b);
      const Op& op_a = method_a_.ops(in_a);
      const Op& op_b = method_b_.ops(in_b);
      for (int k = 0; k < op_a.outputs_size(); ++k) counterpart_[op_a.outputs(k)] = op_b.outputs(k);
      if (!SameOperands(op_a, op_b)) {
        absl::StrAppend(&text, "    ~ op ", in_a, " / ", in_b, " reads %", absl::StrJoin(op_a.inputs(), ", %"), " / %",
                        absl::StrJoin(op_b.inputs(), ", %"), ": ", FirstLine(texts_a[static_cast<size_t>(in_a)]), "\n");
      }
      ++i;
      ++j;
    }
    append_until(method_a_.ops_size(), method_b_.ops_size());
    return text;
  }

  // Returns a line for each result and update whose value is computed by another op. Call it after Ops().
  std::string Uses() const {
    std::string text;
    for (int i = 0; i < std::min(method_a_.outputs_size(), method_b_.outputs_size()); ++i) {
      if (Same(method_a_.outputs(i), method_b_.outputs(i))) continue;
      absl::StrAppend(&text, "    ~ result ", i, " is %", method_a_.outputs(i), " / %", method_b_.outputs(i), "\n");
    }
    for (const auto& update : method_a_.state_updates()) {
      for (const auto& other : method_b_.state_updates()) {
        if (NameOf(a_, update.state()) != NameOf(b_, other.state()) || Same(update.value(), other.value())) continue;
        absl::StrAppend(&text, "    ~ state ", NameOf(a_, update.state()), " becomes %", update.value(), " / %",
                        other.value(), "\n");
      }
    }
    return text;
  }

 private:
  static std::string FirstLine(absl::string_view text) { return std::string(text.substr(0, text.find('\n'))); }
  static const std::string& NameOf(const Program& program, uint32_t state) {
    return program.state(static_cast<int>(state)).name();
  }
  static void AppendOp(absl::string_view sign, int op, const std::vector<std::string>& texts, std::string& out) {
    const absl::string_view lines = absl::StripTrailingAsciiWhitespace(texts[static_cast<size_t>(op)]);
    absl::StrAppend(&out, "    ", sign, " op ", op, " ",
                    absl::StrReplaceAll(lines, {{"\n", absl::StrCat("\n    ", sign, " ")}}), "\n");
  }
  bool Same(uint32_t value_a, uint32_t value_b) const {
    const auto found = counterpart_.find(value_a);
    return found != counterpart_.end() && found->second == value_b;
  }
  bool SameOperands(const Op& op_a, const Op& op_b) const {
    for (int i = 0; i < op_a.inputs_size(); ++i) {
      if (!Same(op_a.inputs(i), op_b.inputs(i))) return false;
    }
    return true;
  }

  const Program& a_;
  const Program& b_;
  const Method& method_a_;
  const Method& method_b_;
  std::map<uint32_t, uint32_t> counterpart_;  // value of b by value of a
};

// Returns the method with states numbered as in the other artifact, so that equal methods have equal bytes.
std::string BytesWithoutNumbers(const Program& program, Method method) {
  const auto sort_key = [&](uint32_t state) { return program.state(static_cast<int>(state)).name(); };
  std::vector<std::string> states;
  for (auto& read : *method.mutable_state_reads()) {
    states.push_back(absl::StrCat("read ", read.value(), sort_key(read.state())));
    read.set_state(0);
  }
  for (auto& update : *method.mutable_state_updates()) {
    states.push_back(absl::StrCat("update ", update.value(), sort_key(update.state())));
    update.set_state(0);
  }
  return absl::StrCat(absl::StrJoin(states, "\n"), "\n", method.SerializeAsString());
}

std::string MethodDiff(const Program& a, const Method& method_a, const Program& b, const Method& method_b) {
  if (BytesWithoutNumbers(a, method_a) == BytesWithoutNumbers(b, method_b)) return "";
  const MethodLines lines_a(a, method_a);
  const MethodLines lines_b(b, method_b);
  OperandDiff operands(a, method_a, b, method_b);
  std::string ops = operands.Ops(lines_a.Ops(), lines_b.Ops());
  absl::StrAppend(&ops, operands.Uses());
  const std::string text =
      absl::StrCat(Section("  signature", ListDiff(lines_a.Signature(), lines_b.Signature(), "    ")),
                   Section("  ops", ops), Section("  plan", ListDiff(lines_a.Plan(), lines_b.Plan(), "    ")),
                   Section("  ViewAndMutationMeta", ListDiff(lines_a.Metadata(), lines_b.Metadata(), "    ")));
  return text.empty() ? "  ~ other fields: names, numbers of values or GraphSignature\n" : text;
}

std::string MethodsDiff(const Program& a, const Program& b) {
  std::string text;
  for (const Method& method : a.artifact().methods()) {
    const absl::StatusOr<int> other = b.FindMethod(method.name());
    if (!other.ok()) {
      absl::StrAppend(&text, "- method ", method.name(), ", ", method.ops_size(), " ops\n");
    } else {
      absl::StrAppend(&text,
                      Section(absl::StrCat("method ", method.name()), MethodDiff(a, method, b, b.method(*other))));
    }
  }
  for (const Method& method : b.artifact().methods()) {
    if (a.FindMethod(method.name()).ok()) continue;
    absl::StrAppend(&text, "+ method ", method.name(), ", ", method.ops_size(), " ops\n");
  }
  return text;
}

std::vector<std::string> ReferenceLines(const Artifact& artifact) {
  const auto append = [&](const serialization::ReferenceTensor& tensor, std::string* out) {
    absl::StrAppendFormat(out, " %s %08x tolerance %g", TensorTypeText(tensor.type()),
                          artifact.segments(static_cast<int>(tensor.segment())).crc32c(), tensor.tolerance());
  };
  std::vector<std::string> lines;
  for (const auto& run : artifact.references()) {
    std::string line = absl::StrCat(run.method(), ", seed ", run.rng_seed(), ", offset ", run.rng_offset(), ", inputs");
    for (const auto& tensor : run.inputs()) append(tensor, &line);
    line += ", results";
    for (const auto& tensor : run.outputs()) append(tensor, &line);
    for (const auto& state : run.states_after()) {
      absl::StrAppend(&line, ", state ", state.state());
      append(state.tensor(), &line);
    }
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> KernelLines(const Artifact& artifact) {
  std::vector<std::string> lines;
  if (artifact.has_cuda_kernels()) lines.push_back(absl::StrCat("library ", artifact.cuda_kernels().library_digest()));
  for (const auto& kernel : artifact.cuda_kernels().kernels()) {
    for (const auto& image : kernel.images()) {
      lines.push_back(absl::StrFormat("kernel of %d bytes of text, compute capability %d, image %08x",
                                      kernel.text().size(), image.compute_capability(),
                                      artifact.segments(static_cast<int>(image.segment())).crc32c()));
    }
  }
  return lines;
}

}  // namespace

std::string DiffText(const Program& a, const Program& b) {
  return absl::StrCat(
      Section("dynamic dimensions", ListDiff(SymbolLines(a.artifact()), SymbolLines(b.artifact()), "  ")),
      Section("states", StatesDiff(a, b)), MethodsDiff(a, b),
      Section("recorded runs", ListDiff(ReferenceLines(a.artifact()), ReferenceLines(b.artifact()), "  ")),
      Section("kernels for GPUs", ListDiff(KernelLines(a.artifact()), KernelLines(b.artifact()), "  ")));
}

}  // namespace cotan::tools
