// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/effect_kernel.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/denormal_mode.h"
#include "base/status_macros.h"
#include "runtime/execution/running_handler.h"
#include "runtime/tensor/tensor.h"

namespace cotan {
namespace {

using serialization::Effect;

class EffectKernel final : public Kernel {
 public:
  EffectKernel(const Effect& effect, EffectHandler handler, const EffectHandlers* handlers, Device& device,
               StridedLayout layout, Tensor value)
      : kind_(KindOf(effect)),
        name_(effect.name()),
        message_(effect.message()),
        handler_(std::move(handler)),
        handlers_(handlers),
        device_(device),
        layout_(std::move(layout)),
        value_(std::move(value)) {
    if (device_.type() != DeviceType::kCpu) {
      elements_.resize(static_cast<size_t>(StorageExtent(layout_)) * ByteSize(value_.dtype()));
    }
  }

  bool runs_on_host() const override { return true; }

  absl::Status Run(const KernelArgs& args) override {
    const void* from = args.inputs[0];
    if (!elements_.empty()) {
      COTAN_RETURN_IF_ERROR(device_.CopyToHost(elements_.data(), from, elements_.size()));
      from = elements_.data();
    }
    CopyStrided(from, layout_, value_.address(), value_.layout(), ByteSize(value_.dtype()));
    if (kind_ == EffectKind::kAssert) return RunAssertion();
    return Handle();
  }

 private:
  absl::Status Handle() {
    const RunningHandler running(handlers_);
    const ScopedDenormalMode application(false);
    return handler_({kind_, name_, message_, value_});
  }

  absl::Status RunAssertion() {
    const bool* const holds = value_.data<bool>();
    int64_t failed = 0;
    while (failed < value_.num_elements() && holds[failed]) ++failed;
    if (failed == value_.num_elements()) return absl::OkStatus();
    if (handler_ != nullptr) return Handle();
    return absl::InvalidArgumentError(absl::StrCat("assertion '", name_, "' failed", message_.empty() ? "" : ": ",
                                                   message_, " (element ", failed, " of ", value_.ToString(),
                                                   " is false)"));
  }

  const EffectKind kind_;
  const std::string name_;
  const std::string message_;
  const EffectHandler handler_;           // null: a failed assertion is an error
  const EffectHandlers* const handlers_;  // of which it is one
  Device& device_;
  const StridedLayout layout_;  // on the device
  const Tensor value_;          // on the host
  std::vector<char> elements_;  // on the host, as on the device; empty for the host itself
};

}  // namespace

EffectKind KindOf(const Effect& effect) {
  if (effect.kind() == Effect::METRIC) return EffectKind::kMetric;
  return effect.kind() == Effect::ASSERT ? EffectKind::kAssert : EffectKind::kPrint;
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareEffect(const Effect& effect, const TensorSpec& value, Device& device,
                                                      const EffectHandlers* handlers) {
  const EffectKind kind = KindOf(effect);
  const EffectHandler* const handler = handlers == nullptr ? nullptr : handlers->Find(kind, effect.name());
  if (handler == nullptr && kind != EffectKind::kAssert) {
    return absl::FailedPreconditionError(absl::StrCat("no handler for ", EffectKindName(kind), " '", effect.name(),
                                                      "': set a handler in SessionOptions.effects"));
  }
  COTAN_ASSIGN_OR_RETURN(Tensor host, Tensor::Empty(value.dtype, value.layout.sizes));
  return std::make_unique<EffectKernel>(effect, handler == nullptr ? EffectHandler() : *handler, handlers, device,
                                        value.layout, std::move(host));
}

}  // namespace cotan
