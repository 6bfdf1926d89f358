// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/call_plan_text.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cotan {

std::string CallPlanText::Argument(int argument) const {
  const int input = plan_.argument_inputs[static_cast<size_t>(argument)];
  if (input >= 0) return plan_.inputs[static_cast<size_t>(input)].name;
  std::vector<std::string> names;
  for (const CallPlan::BaseView& view : plan_.bases[static_cast<size_t>(argument)].views) {
    names.push_back(plan_.inputs[static_cast<size_t>(view.input)].name);
  }
  return absl::StrCat("base of ", absl::StrJoin(names, ", "));
}

const std::string& CallPlanText::Input(int input) const { return plan_.inputs[static_cast<size_t>(input)].name; }

std::string CallPlanText::ArgumentWrappers() const {
  std::vector<std::string> parts;
  for (const auto& [name, meta] : plan_.wrapped_arguments) {
    if (!WrapperTypeName(meta).empty()) parts.push_back(absl::StrCat(name, " ", cotan::ToString(meta)));
  }
  return absl::StrJoin(parts, ", ");
}

std::string CallPlanText::OutputWrappers() const {
  std::vector<std::string> parts;
  for (size_t i = 0; i < plan_.wrapped_outputs.size(); ++i) {
    const FlatMeta& meta = plan_.wrapped_outputs[i];
    if (!WrapperTypeName(meta).empty()) parts.push_back(absl::StrCat("output ", i, " ", cotan::ToString(meta)));
  }
  return absl::StrJoin(parts, ", ");
}

std::string CallPlanText::Duplicates() const {
  std::vector<std::string> parts;
  for (const auto& [input, original] : plan_.duplicates) {
    parts.push_back(absl::StrCat(Input(input), " is ", Input(original)));
  }
  for (const auto& [input, other] : plan_.must_not_alias) {
    parts.push_back(absl::StrCat(Input(input), " is not ", Input(other)));
  }
  return absl::StrJoin(parts, ", ");
}

std::string CallPlanText::Bases() const {
  std::vector<std::string> parts;
  for (int i = 0; i < static_cast<int>(plan_.bases.size()); ++i) {
    parts.push_back(absl::StrCat(plan_.bases[static_cast<size_t>(i)].geometry.ToString(), " is the ", Argument(i)));
  }
  return absl::StrJoin(parts, "; ");
}

std::string CallPlanText::Gradients() const {
  std::vector<std::string> names;
  for (int argument : plan_.gradient_inputs) names.push_back(Argument(argument));
  return absl::StrJoin(names, ", ");
}

std::string CallPlanText::WriteBacks(bool only_tracked) const {
  std::vector<std::string> parts;
  if (!only_tracked) {
    for (const CallPlan::NewGeometry& change : plan_.new_geometries) {
      parts.push_back(absl::StrCat(Input(change.input), " becomes ", change.geometry.ToString()));
    }
  }
  for (const CallPlan::WriteBack& write : plan_.write_backs) {
    if (only_tracked && write.tangent < 0) continue;
    parts.push_back(absl::StrCat("content of ", Argument(write.argument),
                                 write.tangent >= 0     ? " with grad_fn"
                                 : !write.bumps_version ? " hidden from autograd"
                                 : write.under_no_grad  ? " under no_grad"
                                                        : ""));
  }
  if (only_tracked) return absl::StrJoin(parts, ", ");
  for (const CallPlan::NewStorage& set : plan_.new_storages) {
    parts.push_back(absl::StrCat("storage of ", Input(set.input)));
    if (set.owner_input >= 0) absl::StrAppend(&parts.back(), ", that of ", Input(set.owner_input));
  }
  for (int argument : plan_.bumped_arguments) parts.push_back(absl::StrCat("version of ", Argument(argument)));
  if (!plan_.detached_inputs.empty()) parts.push_back(absl::StrCat("detached ", Inputs(plan_.detached_inputs)));
  return absl::StrJoin(parts, ", ");
}

std::string CallPlanText::Inputs(const std::vector<int>& inputs) const {
  return absl::StrJoin(inputs, ", ", [this](std::string* out, int input) { out->append(Input(input)); });
}

std::string CallPlanText::Outputs() const {
  using Kind = CallPlan::Output::Kind;
  std::vector<std::string> parts;
  for (const CallPlan::Output& output : plan_.outputs) {
    const std::string name = absl::StrCat("output ", output.output);
    switch (output.kind) {
      case Kind::kScalar:
        parts.push_back(absl::StrCat(name, " a value"));
        break;
      case Kind::kReturned:
        parts.push_back(absl::StrCat(name, " new"));
        break;
      case Kind::kSameOutput:
        parts.push_back(absl::StrCat(name, " is output ", output.index));
        break;
      case Kind::kIsInput:
        parts.push_back(absl::StrCat(name, " is ", Input(output.index)));
        break;
      case Kind::kViewOfInput:
        parts.push_back(absl::StrCat(name, " a view of ", Input(output.index)));
        break;
      case Kind::kViewOfBase:
        parts.push_back(absl::StrCat(name, " a view of an intermediate"));
        break;
      case Kind::kViewOfOutput:
        parts.push_back(absl::StrCat(name, " a view of output ", output.index));
        break;
      case Kind::kSharesInputStorage:
        parts.push_back(absl::StrCat(name, " in the memory of ", Input(output.index)));
        break;
    }
  }
  return absl::StrJoin(parts, ", ");
}

}  // namespace cotan
