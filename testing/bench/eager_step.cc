// SPDX-License-Identifier: Apache-2.0

#include "testing/bench/eager_step.h"

#include <ATen/autocast_mode.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <optional>

namespace cotan::testing {
namespace {

// Receives each allocation and deallocation of LibTorch's allocator.
class PeakReporter : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* block, int64_t bytes, size_t total_allocated, size_t total_reserved,
                         c10::Device device) override {
    held_ += bytes;
    peak_ = std::max(peak_, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  int64_t peak() const { return peak_; }

 private:
  int64_t held_ = 0;  // bytes
  int64_t peak_ = 0;
};

at::Generator SeededGenerator(uint64_t seed) { return at::detail::createCPUGenerator(seed); }

std::shared_ptr<Network> MakeNetwork(const ModelCase& model, uint64_t seed) {
  torch::manual_seed(seed);
  return model.make_network();
}

// Runs ops under autocast to bf16 within its scope, as torch.autocast("cpu") does: a cast parameter is cached.
class Bf16Scope {
 public:
  Bf16Scope() {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~Bf16Scope() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
  }
  Bf16Scope(const Bf16Scope&) = delete;
  Bf16Scope& operator=(const Bf16Scope&) = delete;
};

}  // namespace

EagerStep::EagerStep(const ModelCase& model, uint64_t seed, bool autocasts)
    : model_(model),
      input_(model.make_input(SeededGenerator(seed))),
      label_(model.make_label(SeededGenerator(seed + 1))),
      network_(MakeNetwork(model, seed)),
      optimizer_(network_->parameters(), torch::optim::SGDOptions(kLearningRate).momentum(kMomentum)),
      autocasts_(autocasts) {}

void EagerStep::Run() {
  optimizer_.zero_grad(/*set_to_none=*/true);
  torch::Tensor loss;
  {
    std::optional<Bf16Scope> scope;
    if (autocasts_) scope.emplace();
    loss = model_.loss(network_->forward(input_), label_);
  }
  loss.backward();
  optimizer_.step();
}

int64_t EagerPeakBytes(const ModelCase& model, uint64_t seed, bool autocasts) {
  const auto reporter = std::make_shared<PeakReporter>();
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, reporter);
  EagerStep step(model, seed, autocasts);
  step.Run();
  step.Run();
  return reporter->peak();
}

}  // namespace cotan::testing
