// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/decomposition.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "aot/capture/argument.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/proxy_tensor.h"

namespace cotan::aot {
namespace {

bool IsView(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    if (result.alias_info() != nullptr) return true;
  }
  return false;
}

// Returns why the op cannot be decomposed; empty if it can.
std::string Obstacle(const std::string& name, const Decomposition& decomposition) {
  if (decomposition == nullptr) return "its decomposition is empty";
  const absl::StatusOr<c10::OperatorHandle> op = FindOperator(name);
  if (!op.ok()) return std::string(op.status().message());
  if (op->schema().is_mutable())
    return "it writes to an argument, and its functional form is recorded instead; name that";
  if (IsView(op->schema())) return "its result is a view";
  if (op->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd)) {
    return "LibTorch writes it in terms of other ops, which are recorded instead; name those";
  }
  if (op->hasKernelForDispatchKey(kRewriteKey)) return "Cotan writes it in terms of other ops above autograd";
  return "";
}

// Returns the present dispatch keys with all stages of tracing enabled: a decomposition may call composite
// ops, which are taken apart at autograd's keys, and ops that write.
c10::impl::LocalDispatchKeySet KeysOfDecompositions() {
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  keys.included_ = keys.included_ | kTracingKeys;
  keys.excluded_ = keys.excluded_ - kTracingKeys - c10::autograd_dispatch_keyset_with_ADInplaceOrView;
  return keys;
}

}  // namespace

absl::Status CheckDecompositions(const DecompositionTable& table) {
  std::vector<std::string> obstacles;
  for (const auto& [op, decomposition] : table) {
    const std::string obstacle = Obstacle(op, decomposition);
    if (!obstacle.empty()) obstacles.push_back(absl::StrCat(op, ": ", obstacle));
  }
  if (obstacles.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("these ops cannot be decomposed:\n  ", absl::StrJoin(obstacles, "\n  ")));
}

const Decomposition* Decomposer::Find(const std::string& op) const {
  if (table_ == nullptr || running_.contains(op)) return nullptr;
  const auto found = table_->find(op);
  return found == table_->end() ? nullptr : &found->second;
}

absl::StatusOr<std::vector<c10::IValue>> Decomposer::Run(const std::string& op, const Decomposition& decomposition,
                                                         std::vector<c10::IValue> arguments) {
  running_.insert(op);
  const absl::Cleanup done = [&] { running_.erase(op); };
  std::vector<std::pair<at::Tensor, at::Tensor>> wrapped;  // with the proxy inside
  for (c10::IValue& argument : arguments) {
    ReplaceTensors(argument, [&](const at::Tensor& tensor) {
      if (AsProxy(tensor) == nullptr) return tensor;
      return wrapped.emplace_back(WrapFunctional(tensor), tensor).first;
    });
  }
  const c10::impl::LocalDispatchKeySet keys = KeysOfDecompositions();
  const c10::impl::ForceDispatchKeyGuard guard(keys);
  const c10::NoGradGuard no_grad;
  std::vector<c10::IValue> results = decomposition(arguments);
  for (c10::IValue& result : results) {
    ReplaceTensors(result, [](const at::Tensor& tensor) {
      if (!at::functionalization::impl::isFunctionalTensor(tensor)) return tensor;
      at::functionalization::impl::sync(tensor);
      return at::functionalization::impl::from_functional_tensor(tensor);
    });
  }
  for (const auto& [functional, proxy] : wrapped) {
    if (ProxyOf(functional) != AsProxy(proxy)) {
      return absl::InvalidArgumentError("its decomposition writes to an argument; write to a clone of it");
    }
  }
  return results;
}

}  // namespace cotan::aot
