// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/quantize.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <c10/util/StringUtil.h>

#include <memory>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/recorder.h"
#include "aot/frontend/patterns.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::State;

constexpr int64_t kGroupOf4Bits = 32;

bool IsCandidate(const ModuleState& state) {
  return state.role == State::PARAMETER && !state.requires_grad && state.initial.dim() >= 2;
}

absl::Status NoMatch(const std::string& pattern, const std::vector<ModuleState>& states) {
  std::vector<std::string> names;
  for (const ModuleState& state : states) {
    if (IsCandidate(state)) names.push_back(state.name);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "quantize: the pattern '", pattern, "' matches no frozen matrix; there are: ", absl::StrJoin(names, ", "),
      names.empty() ? ". Freeze parameters by --freeze, or train adapters by --lora" : ""));
}

absl::StatusOr<std::vector<size_t>> FindParameters(const std::vector<std::string>& patterns,
                                                   const std::vector<ModuleState>& states) {
  std::vector<bool> is_chosen(states.size());
  for (const std::string& pattern : patterns) {
    bool matched = false;
    for (size_t i = 0; i < states.size(); ++i) {
      if (!IsCandidate(states[i]) || !Matches(pattern, states[i])) continue;
      is_chosen[i] = matched = true;
    }
    if (!matched) return NoMatch(pattern, states);
  }
  std::vector<size_t> chosen;
  for (size_t i = 0; i < states.size(); ++i) {
    if (is_chosen[i]) chosen.push_back(i);
  }
  return chosen;
}

// Returns the number of groups of a row. InvalidArgument: see QuantizeParameters().
absl::StatusOr<int64_t> GroupsOf(const ModuleState& state, const QuantizeOptions& options) {
  const at::Tensor& weight = state.initial;
  if (!weight.is_floating_point() || weight.numel() == 0) {
    return absl::InvalidArgumentError(absl::StrCat("quantize: '", state.name, "' is ",
                                                   c10::str(weight.scalar_type(), weight.sizes()),
                                                   ", not a matrix of floating point numbers"));
  }
  const int64_t columns = weight.numel() / weight.size(0);
  const int64_t group = options.group != 0 ? options.group : options.bits == 4 ? kGroupOf4Bits : columns;
  if (columns % group == 0) return columns / group;
  return absl::InvalidArgumentError(absl::StrCat("quantize: a row of '", state.name, "' has ", columns,
                                                 " elements, which are not groups of ", group,
                                                 ". Give another group, or patterns that do not match it"));
}

absl::Status CheckOptions(const QuantizeOptions& options) {
  if (options.bits != 8 && options.bits != 4) {
    return absl::InvalidArgumentError(absl::StrCat("quantize: ", options.bits, " bits; there are 8 and 4"));
  }
  if (options.group < 0 || (options.bits == 4 && options.group % 2 != 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("quantize: the group is ", options.group, "; it must be positive, and even with 4 bits"));
  }
  return absl::OkStatus();
}

at::Tensor StateTensor(const at::Tensor& initial, const std::shared_ptr<TraceEpoch>& epoch) {
  return WrapFunctional(MakeProxy(initial, kNoValue, epoch));
}

}  // namespace

absl::StatusOr<std::vector<QuantizedWeight>> QuantizeParameters(const QuantizeOptions& options,
                                                                std::vector<ModuleState>& states) {
  COTAN_RETURN_IF_ERROR(CheckOptions(options));
  COTAN_ASSIGN_OR_RETURN(const std::vector<size_t> chosen, FindParameters(options.parameters, states));
  const auto epoch = std::make_shared<TraceEpoch>();
  epoch->kind = TraceEpoch::Kind::kConstruction;
  std::vector<QuantizedWeight> weights;
  for (const size_t i : chosen) {
    COTAN_ASSIGN_OR_RETURN(const int64_t groups, GroupsOf(states[i], options));
    const QuantizedData quantized = Quantize(states[i].initial, options.bits, groups);
    ModuleState scale;
    scale.name = absl::StrCat(states[i].name, "_scale");
    if (absl::c_any_of(states, [&](const ModuleState& state) { return state.name == scale.name; })) {
      return absl::InvalidArgumentError(absl::StrCat("quantize: '", scale.name, "' exists already"));
    }
    scale.role = State::BUFFER;
    scale.initial = quantized.scale;
    scale.tensor = StateTensor(scale.initial, epoch);
    const at::Tensor data = StateTensor(quantized.data, epoch);
    weights.push_back({states[i].name, std::exchange(states[i].tensor, data), data, scale.tensor, options.bits});
    states[i].initial = quantized.data;
    states[i].constructed = at::Tensor();
    states.push_back(std::move(scale));
  }
  return weights;
}

}  // namespace cotan::aot
