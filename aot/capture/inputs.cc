// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/inputs.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/empty.h>

#include <memory>

#include "aot/capture/non_leaf.h"
#include "aot/capture/number.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/real_scope.h"

namespace cotan::aot {
void InstallStateProxies(absl::Span<const ModuleState> states, Recorder& recorder) {
  int counts[2] = {0, 0};
  for (const ModuleState& state : states) {
    const bool parameter = state.role == serialization::State::PARAMETER;
    const at::Tensor fresh = recorder.AddInput(state.initial, parameter ? InputKind::kParameter : InputKind::kBuffer,
                                               counts[parameter ? 0 : 1]++, state.name);
    Reseat(state.tensor, at::functionalization::impl::from_functional_tensor(fresh));
    state.tensor.requires_grad_(state.requires_grad);
    if (state.constructed.defined()) {
      recorder.registered_storages[state.constructed.storage().data()] = state.name;
    }
  }
}

void RestoreStates(absl::Span<const ModuleState> states) {
  const auto epoch = std::make_shared<TraceEpoch>();
  epoch->kind = TraceEpoch::Kind::kConstruction;
  for (const ModuleState& state : states) {
    // The traced function may have assigned a tensor with a grad_fn to a buffer.
    if (!state.is_borrowed) state.tensor.unsafeGetTensorImpl()->set_autograd_meta(nullptr);
    Reseat(state.tensor, MakeProxy(state.initial, kNoValue, epoch));
  }
}

at::Tensor AddInputLike(const at::Tensor& example, Recorder& recorder, int index, const std::string& name) {
  const at::Tensor real = [&] {
    RealScope scope;
    at::Tensor detached = example.detach();
    if (IsNumber(example)) detached.unsafeGetTensorImpl()->set_wrapped_number(false);
    return detached;
  }();
  at::Tensor input = recorder.AddInput(real, InputKind::kUserInput, index, name);
  if (IsNumber(example)) MarkNumber(input);
  input.requires_grad_(example.requires_grad());
  if (!example.is_leaf()) input = NonLeaf(input);
  if (example.is_view()) recorder.autograd_views().AddViewOfCaller(input);
  return input;
}

void InstallRngState(uint64_t seed, Recorder& recorder) {
  const at::Tensor state = [&] {
    RealScope scope;
    at::Tensor result = at::empty({2}, at::TensorOptions(at::kLong));
    result.mutable_data_ptr<int64_t>()[0] = static_cast<int64_t>(seed);
    result.mutable_data_ptr<int64_t>()[1] = 0;
    return result;
  }();
  recorder.rng_state = recorder.AddInput(state, InputKind::kRngState, 0, "rng");
}

}  // namespace cotan::aot
