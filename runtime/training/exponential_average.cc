// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/exponential_average.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::training {
namespace {

using serialization::State;

template <typename T>
void MoveToward(const Tensor& parameter, double decay, const Tensor& average) {
  const T* from = parameter.data<T>();
  T* to = average.data<T>();
  for (int64_t i = 0; i < average.num_elements(); ++i) {
    const double old = to[i], target = from[i];
    to[i] = static_cast<T>(decay * old + (1 - decay) * target);
  }
}

bool HasTypeOf(const Tensor& value, const Tensor& other) {
  return value.dtype() == other.dtype() && value.sizes() == other.sizes();
}

}  // namespace

absl::StatusOr<ExponentialAverage> ExponentialAverage::Create(Session* session, double decay) {
  if (!(decay > 0 && decay < 1)) {
    return absl::InvalidArgumentError(absl::StrCat("the decay of the averages is ", decay, "; expected one in (0, 1)"));
  }
  ExponentialAverage average(session, decay);
  for (const State& state : session->program().artifact().states()) {
    if (state.role() != State::PARAMETER || !state.requires_grad()) continue;
    COTAN_ASSIGN_OR_RETURN(Tensor value, session->State(state.name()));
    if (value.dtype() != DType::kFloat32 && value.dtype() != DType::kFloat64) {
      return absl::UnimplementedError(
          absl::StrCat("parameter '", state.name(), "' is ", value.ToString(), "; averages need f32 or f64"));
    }
    average.averages_.emplace_back(state.name(), std::move(value));
  }
  if (average.averages_.empty()) return absl::InvalidArgumentError("the program trains no parameters to average");
  return average;
}

absl::Status ExponentialAverage::Update() {
  for (const auto& [name, average] : averages_) {
    COTAN_ASSIGN_OR_RETURN(const Tensor parameter, session_->State(name));
    if (average.dtype() == DType::kFloat32) {
      MoveToward<float>(parameter, decay_, average);
    } else {
      MoveToward<double>(parameter, decay_, average);
    }
  }
  return absl::OkStatus();
}

absl::Status ExponentialAverage::Swap() {
  for (auto& [name, average] : averages_) {
    COTAN_ASSIGN_OR_RETURN(Tensor parameter, session_->State(name));
    COTAN_RETURN_IF_ERROR(session_->SetState(name, average));
    average = std::move(parameter);
  }
  return absl::OkStatus();
}

absl::Status ExponentialAverage::Set(absl::Span<const std::pair<std::string, Tensor>> averages) {
  if (averages.size() != averages_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there are ", averages.size(), " averages; expected ", averages_.size()));
  }
  std::vector<std::pair<std::string, Tensor>> copies;
  for (size_t i = 0; i < averages.size(); ++i) {
    const auto& [name, value] = averages[i];
    if (name != averages_[i].first || !value.defined() || !HasTypeOf(value, averages_[i].second)) {
      return absl::InvalidArgumentError(absl::StrCat("average ", i, " is '", name, "', ", value.ToString(),
                                                     "; expected '", averages_[i].first, "', ",
                                                     averages_[i].second.ToString()));
    }
    COTAN_ASSIGN_OR_RETURN(const Tensor host, value.ToHost());
    COTAN_ASSIGN_OR_RETURN(Tensor copy, host.Clone());
    copies.emplace_back(name, std::move(copy));
  }
  averages_ = std::move(copies);
  return absl::OkStatus();
}

}  // namespace cotan::training
