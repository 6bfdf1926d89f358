// SPDX-License-Identifier: Apache-2.0

#include <limits>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "aot/ir/expr_text.h"
#include "aot/optimizer/option_ranges.h"
#include "aot/optimizer/update_target.h"
#include "base/status_macros.h"

namespace cotan::aot {

absl::Status CheckRange(absl::string_view what, double value, double low, double high) {
  if (value >= low && value < high) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("optimizer: ", what, " is ", value, ", expected a number in [", low, ", ", high, ")"));
}

absl::Status CheckRanges(const OptimizerOptions& options) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  if (const auto* sgd = std::get_if<SgdOptions>(&options)) {
    COTAN_RETURN_IF_ERROR(CheckRange("lr", sgd->lr, 0, kAny));
    COTAN_RETURN_IF_ERROR(CheckRange("momentum", sgd->momentum, 0, kAny));
    COTAN_RETURN_IF_ERROR(CheckRange("weight_decay", sgd->weight_decay, 0, kAny));
    if (sgd->nesterov && (sgd->momentum == 0 || sgd->dampening != 0)) {
      return absl::InvalidArgumentError("optimizer: Nesterov momentum requires a momentum and zero dampening");
    }
    return absl::OkStatus();
  }
  const AdamOptions& adam = std::get<AdamOptions>(options);
  COTAN_RETURN_IF_ERROR(CheckRange("lr", adam.lr, 0, kAny));
  COTAN_RETURN_IF_ERROR(CheckRange("beta1", adam.beta1, 0, 1));
  COTAN_RETURN_IF_ERROR(CheckRange("beta2", adam.beta2, 0, 1));
  COTAN_RETURN_IF_ERROR(CheckRange("eps", adam.eps, 0, kAny));
  return CheckRange("weight_decay", adam.weight_decay, 0, kAny);
}

absl::Status CheckRanges(const LossScaling& scaling) {
  constexpr double kAny = std::numeric_limits<double>::infinity();
  constexpr double kTiny = std::numeric_limits<double>::min();
  COTAN_RETURN_IF_ERROR(CheckRange("initial_scale", scaling.initial_scale, kTiny, kAny));
  COTAN_RETURN_IF_ERROR(CheckRange("growth_factor", scaling.growth_factor, 1, kAny));
  COTAN_RETURN_IF_ERROR(CheckRange("backoff_factor", scaling.backoff_factor, kTiny, 1));
  return CheckRange("growth_interval", scaling.growth_interval, 1, kAny);
}

std::string OptimizerName(const OptimizerOptions& options) {
  if (std::holds_alternative<SgdOptions>(options)) return "sgd";
  return std::get<AdamOptions>(options).decoupled_weight_decay ? "adamw" : "adam";
}

AdamOptions AdamW() {
  AdamOptions options;
  options.weight_decay = 0.01;
  options.decoupled_weight_decay = true;
  return options;
}

std::string HyperparameterName(absl::string_view hyperparameter, int group) {
  return absl::StrCat("hyperparameter.", hyperparameter, ".", group);
}

serialization::State MakeState(std::string name, serialization::State::Role role, const TensorType& type, double fill,
                               std::string owner) {
  serialization::State state;
  state.set_name(std::move(name));
  state.set_role(role);
  state.mutable_type()->set_dtype(ToProto(type.dtype));
  for (const SymInt& size : type.sizes) state.mutable_type()->add_sizes(size.ToString());
  state.set_fill(fill);
  state.set_owner(std::move(owner));
  state.set_persistent(true);
  return state;
}

}  // namespace cotan::aot
