#include "runtime/method_plans.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "runtime/arguments.h"

namespace cotan {
namespace {

using serialization::Method;

// Whether both are in one storage and have a byte in common.
bool Overlap(const Tensor& a, const Tensor& b) {
  return a.storage() == b.storage() && LayoutsOverlap(a.layout(), static_cast<int64_t>(ByteSize(a.dtype())), b.layout(),
                                                      static_cast<int64_t>(ByteSize(b.dtype())));
}

}  // namespace

absl::StatusOr<Executable*> MethodPlans::Prepare(absl::Span<const Tensor* const> arguments, const DimVector* known) {
  Executable* executable = last();
  const bool same =
      executable != nullptr && (known == nullptr || executable->plan().symbols == *known) &&
      ArgumentsMatch(absl::MakeConstSpan(executable->plan().inputs).subspan(static_cast<size_t>(num_saved_)), arguments,
                     *core_.target().device);
  if (!same) {
    std::vector<Tensor> tensors;
    for (const Tensor* argument : arguments) tensors.push_back(*argument);
    COTAN_ASSIGN_OR_RETURN(
        const DimVector symbols,
        CheckArguments(core_.program(), core_.program().method(method_), num_saved_, tensors, *core_.target().device,
                       known == nullptr ? absl::Span<const int64_t>() : *known));
    COTAN_ASSIGN_OR_RETURN(executable, FindOrPlan(symbols));
  }
  if (!executable->plan().written_inputs.empty()) {
    COTAN_RETURN_IF_ERROR(CheckWrites(executable->plan(), arguments));
  }
  COTAN_RETURN_IF_ERROR(core_.Begin(*executable));
  return executable;
}

absl::StatusOr<Executable*> MethodPlans::FindOrPlan(absl::Span<const int64_t> symbols) {
  const auto found =
      std::find_if(executables_.begin(), executables_.end(), [&](const std::unique_ptr<Executable>& executable) {
        return absl::MakeConstSpan(executable->plan().symbols) == symbols;
      });
  if (found != executables_.end()) {
    std::rotate(found, found + 1, executables_.end());
    return last();
  }
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Executable> made,
                         Executable::Make(core_.program(), method_, symbols, core_.target(), options_));
  core_.CountPlan();
  if (static_cast<int>(executables_.size()) == core_.max_plans()) executables_.erase(executables_.begin());
  executables_.push_back(std::move(made));
  return last();
}

std::string MethodPlans::NameOf(int input) const {
  const Method& method = core_.program().method(method_);
  return absl::StrCat("argument ", input - num_saved_, " '", core_.program().InputName(method, input), "'");
}

absl::Status MethodPlans::CheckWrites(const Plan& plan, absl::Span<const Tensor* const> arguments) const {
  for (int written : plan.written_inputs) {
    if (written >= num_saved_) COTAN_RETURN_IF_ERROR(CheckWrite(written, arguments));
  }
  return absl::OkStatus();
}

absl::Status MethodPlans::CheckWrite(int written, absl::Span<const Tensor* const> arguments) const {
  const Method& method = core_.program().method(method_);
  const auto at = static_cast<size_t>(written - num_saved_);
  const Tensor& target = *arguments[at];
  const auto refuse = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("method '", method.name(), "' writes ", NameOf(written), ", ", why));
  };
  if (OverlapsItself(target.layout())) {
    return refuse("more than one element of which refers to a single place in memory: clone it before");
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (i == at || !Overlap(target, *arguments[i])) continue;
    return refuse(absl::StrCat("which shares memory with ", NameOf(static_cast<int>(i) + num_saved_),
                               "; they did not when the program was traced"));
  }
  for (const serialization::StateRead& read : method.state_reads()) {
    if (!Overlap(target, core_.states().tensor(static_cast<int>(read.state())))) continue;
    return refuse(absl::StrCat("which shares memory with state '",
                               core_.program().state(static_cast<int>(read.state())).name(), "'"));
  }
  return absl::OkStatus();
}

}  // namespace cotan
