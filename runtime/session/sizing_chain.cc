// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/sizing_chain.h"

#include <algorithm>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/sym_int.h"
#include "runtime/execution/plan.h"
#include "serialization/schema/continuation.h"

namespace cotan {

using serialization::Method;
using serialization::SymbolProto;

absl::Status CheckCallable(const Method& method) {
  if (IsCallable(method)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("method '", method.name(), "' computes sizes for '",
                                                 method.continuation().method(), "' and is not called by itself"));
}

SizingChain::SizingChain(SessionCore& core, int method) : core_(core), method_(method) {
  if (method < 0) return;
  const Program& program = core.program();
  std::vector<int> chain = SizingMethodsOf(program.artifact(), program.method(method));
  if (chain.empty()) return;
  num_arguments_ = program.method(chain.front()).inputs_size();
  chain.push_back(method);
  for (size_t i = 0; i + 1 < chain.size(); ++i) AddPart(chain[i], chain[i + 1]);
}

void SizingChain::AddPart(int method, int next) {
  const Method& proto = core_.program().method(method);
  const Method& goes_on = core_.program().method(next);
  Part& part = parts_.emplace_back();
  part.method = method;
  part.plans = std::make_unique<MethodPlans>(core_, method, /*num_saved=*/0);
  part.outputs.resize(static_cast<size_t>(proto.outputs_size()));
  for (int i = num_arguments_; i < goes_on.inputs_size(); ++i) {
    const serialization::ContinuedInput& given = proto.continuation().inputs(i);
    Continued& link = part.links.emplace_back();
    link.from_inputs = given.from_inputs();
    link.index = static_cast<int>(given.index()) - (link.from_inputs ? num_arguments_ : 0);
    link.count = static_cast<int>(given.count()) - 1;
    if (link.count < 0) continue;
    // VerifyArtifact(): a symbol.
    const serialization::TensorType& type = goes_on.values(static_cast<int>(goes_on.inputs(i))).type();
    link.symbol = SymInt::Parse(type.sizes(0))->symbol();
  }
  part.continued.resize(part.links.size());
}

absl::Status SizingChain::Run(absl::Span<const Tensor* const> arguments, ExecuteFunction execute) {
  COTAN_RETURN_IF_ERROR(CheckCount(arguments));
  if (const DeviceType device = core_.target().device->type(); device != DeviceType::kCpu) {
    return absl::UnimplementedError(absl::StrCat("method '", core_.program().method(method_).name(),
                                                 "' has sizes that depend on data, which are counted on the CPU only; "
                                                 "the session runs on ",
                                                 DeviceTypeName(device)));
  }
  // Memory of the last call that has no other owner is used again.
  for (Part& part : parts_) std::fill(part.continued.begin(), part.continued.end(), Tensor());
  absl::Span<const Tensor> continued;
  for (Part& part : parts_) {
    COTAN_RETURN_IF_ERROR(RunPart(part, arguments, continued, execute));
    COTAN_RETURN_IF_ERROR(Link(part, continued));
    continued = part.continued;
  }
  return absl::OkStatus();
}

absl::Status SizingChain::CheckCount(absl::Span<const Tensor* const> arguments) const {
  if (static_cast<int>(arguments.size()) == num_arguments_) return absl::OkStatus();
  const Program& program = core_.program();
  std::vector<std::string> names;
  for (int i = 0; i < num_arguments_; ++i) names.push_back(program.InputName(program.method(method_), i));
  return absl::InvalidArgumentError(absl::StrCat("method '", program.method(method_).name(), "' takes ", num_arguments_,
                                                 " arguments (", absl::StrJoin(names, ", "), "), got ",
                                                 arguments.size()));
}

absl::Status SizingChain::RunPart(Part& part, absl::Span<const Tensor* const> arguments,
                                  absl::Span<const Tensor> continued, ExecuteFunction execute) {
  absl::InlinedVector<const Tensor*, 16> inputs(arguments.begin(), arguments.end());
  for (const Tensor& tensor : continued) inputs.push_back(&tensor);
  const bool is_first = &part == &parts_.front();
  COTAN_ASSIGN_OR_RETURN(Executable* const executable, part.plans->Prepare(inputs, is_first ? nullptr : &symbols_));
  if (is_first) symbols_ = executable->plan().symbols;
  for (size_t i = 0; i < inputs.size(); ++i) {
    COTAN_RETURN_IF_ERROR(executable->SetInput(static_cast<int>(i), *inputs[i]));
  }
  for (size_t i = 0; i < part.outputs.size(); ++i) {
    Tensor& output = part.outputs[i];
    if (output.defined() && output.storage().use_count() > 1) output = Tensor();
    COTAN_RETURN_IF_ERROR(executable->SetOutput(static_cast<int>(i), output));
  }
  return execute(*executable);
}

// Reads the counts, which are values of symbols, and sets the continued inputs of the next method.
absl::Status SizingChain::Link(Part& part, absl::Span<const Tensor> continued) {
  for (size_t i = 0; i < part.links.size(); ++i) {
    const Continued& link = part.links[i];
    const auto index = static_cast<size_t>(link.index);
    const Tensor& whole = link.from_inputs ? continued[index] : part.outputs[index];
    part.continued[i] = whole;
    if (link.count < 0) continue;
    COTAN_ASSIGN_OR_RETURN(const int64_t count, CountOf(part, link));
    symbols_[static_cast<size_t>(link.symbol)] = count;
    StridedLayout layout = whole.layout();
    layout.sizes[0] = count;
    COTAN_ASSIGN_OR_RETURN(part.continued[i], Tensor::InStorage(whole.storage(), whole.dtype(), std::move(layout)));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> SizingChain::CountOf(const Part& part, const Continued& link) const {
  int64_t count = 0;
  Device& device = *core_.target().device;
  const Tensor& counted = part.outputs[static_cast<size_t>(link.count)];
  COTAN_RETURN_IF_ERROR(device.CopyToHost(&count, counted.address(), sizeof(count)));
  const SymbolProto& symbol = core_.program().artifact().symbols(link.symbol);
  const int64_t maximum = std::min(symbol.max(), part.outputs[static_cast<size_t>(link.index)].sizes()[0]);
  if (count >= symbol.min() && count <= maximum) return count;
  const Method& method = core_.program().method(part.method);
  const std::string& what = link.count < method.output_names_size() ? method.output_names(link.count) : symbol.name();
  return absl::InvalidArgumentError(
      absl::StrCat("method '", core_.program().method(method_).name(), "': ", what, " has ",
                   count < 0 ? "a negative number of" : absl::StrCat(count), " elements, and ", symbol.min(), " to ",
                   maximum, " were declared when the program was compiled (tracing.data_dependent_sizes)"));
}

absl::StatusOr<std::vector<const Plan*>> SizingChain::LastPlans() const {
  std::vector<const Plan*> plans;
  for (const Part& part : parts_) {
    if (part.plans->last() == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat("method '", core_.program().method(method_).name(),
                                                        "' has not run yet, so its sizes are unknown"));
    }
    plans.push_back(&part.plans->last()->plan());
  }
  return plans;
}

}  // namespace cotan
