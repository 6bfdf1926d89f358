// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/save_for_backward.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/function/core/compiled_backward.h"
#include "runtime/tensor/tensor.h"

namespace cotan {
namespace {

// Returns the argument with the geometry that the program read; its metadata may have been mutated since.
Variable AsOfForward(const CallContext& call, int argument, const Tensor& read) {
  const Variable& variable = call.argument(argument);
  const Tensor& now = variable.tensor();
  return now.storage() == read.storage() && now.layout() == read.layout() ? variable : variable.DetachAs(read);
}

}  // namespace

std::unique_ptr<SaveForBackwardStage> SaveForBackwardStage::Create(const FunctionMetadata& function) {
  if (function.backward.method < 0) return nullptr;
  return std::unique_ptr<SaveForBackwardStage>(new SaveForBackwardStage(function));
}

SaveForBackwardStage::SaveForBackwardStage(const FunctionMetadata& function)
    : function_(function),
      num_checked_(function.num_saved),
      returned_values_(static_cast<size_t>(function.num_results), -1) {
  const std::optional<SavedForBackward>& saved = function.program_metadata.facts().saved;
  if (saved.has_value()) num_checked_ -= saved->num_tensors_without_version_check;
  for (int i = static_cast<int>(function.returned.values.size()) - 1; i >= 0; --i) {
    const int result = function.returned.at(i).result;
    if (result >= 0) returned_values_[static_cast<size_t>(result)] = i;
  }
}

absl::Status SaveForBackwardStage::Run(CallContext& call) {
  if (!call.is_recorded) return absl::OkStatus();
  for (int i = 0; i < function_.num_saved; ++i) {
    const int result = function_.first_saved + i;
    const bool is_checked = i < num_checked_;
    const ResultBuffer& place = call.executable->plan().places[static_cast<size_t>(result)];
    switch (place.kind) {
      case ResultBuffer::Kind::kInput: {
        const bool is_continued = place.index >= static_cast<int>(function_.method_arguments.size());
        if (is_continued) {  // a result of a sizing method, which does not use the memory again while it is saved
          COTAN_RETURN_IF_ERROR(call.node->SaveShared(Variable(std::move(call.result(result))), /*is_checked=*/false,
                                                      /*is_argument=*/false));
          ++call.core.stats().saved_without_copy;
          break;
        }
        const int argument = function_.method_arguments[static_cast<size_t>(place.index)];
        if (call.result(result).storage() !=
            call.argument(argument).tensor().storage()) {  // cloned by input_mutations.cc
          COTAN_RETURN_IF_ERROR(call.node->SaveOwn(std::move(call.result(result))));
          break;
        }
        COTAN_RETURN_IF_ERROR(call.node->SaveShared(AsOfForward(call, argument, call.result(result)), is_checked,
                                                    /*is_argument=*/true));
        ++call.core.stats().saved_without_copy;
        break;
      }
      case ResultBuffer::Kind::kResult: {
        const int shown = returned_values_[static_cast<size_t>(place.index)];
        const Variable* variable = shown < 0 ? nullptr : &call.returned[static_cast<size_t>(shown)];
        if (variable == nullptr || !variable->defined()) {  // used by no variable
          COTAN_RETURN_IF_ERROR(call.node->SaveOwn(call.result(result)));
          break;
        }
        COTAN_RETURN_IF_ERROR(call.node->SaveShared(*variable, is_checked, /*is_argument=*/false));
        ++call.core.stats().saved_without_copy;
        break;
      }
      default:
        COTAN_RETURN_IF_ERROR(call.node->SaveOwn(std::move(call.result(result))));
    }
  }
  call.node->SealStates();
  if (call.primals.has_value()) call.node->SavePrimals(*std::move(call.primals));
  return absl::OkStatus();
}

std::string SaveForBackwardStage::ToString() const {
  return absl::StrCat(function_.num_saved, " values, ", num_checked_, " with their versions, ",
                      function_.backward.donated.size(), " donated, ", function_.backward.read_states.size(),
                      " states");
}

}  // namespace cotan
