// SPDX-License-Identifier: Apache-2.0

#include "aot/blocks/block_table.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"
#include "aot/capture/tensor_data.h"

namespace cotan::aot {
namespace {

thread_local BlockTable* current_table = nullptr;

// Returns the inputs as the caller of a function would pass them.
std::vector<at::Tensor> ExamplesOf(const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> examples;
  for (const at::Tensor& input : inputs) {
    const ProxyTensorImpl* proxy = ProxyOf(input);
    const RealScope real;
    examples.push_back(proxy->real().detach());
    examples.back().requires_grad_(input.requires_grad());
  }
  return examples;
}

// Which modules in a module train, to restore what a run that ended early has changed.
class TrainingModes {
 public:
  // `module` may be null.
  explicit TrainingModes(const torch::nn::Module* module) {
    if (module != nullptr) Add(const_cast<torch::nn::Module&>(*module));
  }

  void Restore() const {
    // From the outside in, because train() reaches all modules inside.
    for (const auto& [module, is_training] : modes_) {
      if (module->is_training() != is_training) module->train(is_training);
    }
  }

 private:
  void Add(torch::nn::Module& module) {
    modes_.emplace_back(&module, module.is_training());
    for (const std::shared_ptr<torch::nn::Module>& child : module.children()) Add(*child);
  }

  std::vector<std::pair<torch::nn::Module*, bool>> modes_;
};

}  // namespace

void BlockTable::StartMethod() {
  frames_.assign(1, Frame());
  values_.clear();
}

void BlockTable::AddRefusal(const std::string& path, absl::string_view reason) {
  std::string refusal = absl::StrCat("block '", path, "': ", reason);
  if (std::find(refusals_.begin(), refusals_.end(), refusal) == refusals_.end()) {
    refusals_.push_back(std::move(refusal));
  }
}

int64_t BlockTable::AddValues(Values values) {
  values_[next_call_] = std::move(values);
  return next_call_++;
}

absl::StatusOr<int> BlockTable::Find(const BlockArguments& arguments) {
  const std::shared_ptr<TraceEpoch>& epoch = CurrentRecorder()->epoch();
  const size_t depth = frames_.size() - 1;
  if (frames_[depth].first == nullptr) frames_[depth].first = epoch;
  const bool is_second = frames_[depth].first != epoch;
  if (is_second && frames_[depth].second != epoch) {
    if (depth == 0) values_.clear();
    frames_[depth].second = epoch;
    frames_[depth].next = 0;
  }
  if (is_second) {
    Frame& frame = frames_[depth];
    const size_t call = frame.next++;
    if (call < frame.blocks.size() && frame.signatures[call] == arguments.signature) {
      if (frame.blocks[call] >= 0) return frame.blocks[call];
      return absl::UnimplementedError("");
    }
  }
  const absl::StatusOr<int> found = arguments.key.empty() ? FindWithoutKey(arguments) : FindWithKey(arguments);
  if (!is_second) {
    frames_[depth].blocks.push_back(found.ok() ? *found : -1);
    frames_[depth].signatures.push_back(arguments.signature);
  }
  return found;
}

absl::StatusOr<int> BlockTable::FindWithKey(const BlockArguments& arguments) {
  const std::string key = absl::StrCat(arguments.key, "\n", arguments.signature);
  if (const auto known = by_key_.find(key); known != by_key_.end()) return known->second;
  absl::StatusOr<int> traced = Trace(arguments, nullptr);
  by_key_.emplace(key, traced);
  return traced;
}

absl::StatusOr<int> BlockTable::FindWithoutKey(const BlockArguments& arguments) {
  std::vector<const OpSequence*> sequences;
  for (const std::unique_ptr<TracedOps>& known : by_signature_[arguments.signature]) sequences.push_back(&known->ops);
  if (!sequences.empty()) {
    const TrainingModes modes(arguments.module);
    const int found = FindSequence(arguments.body, arguments.states, arguments.inputs, sequences);
    if (found >= 0) return by_signature_[arguments.signature][static_cast<size_t>(found)]->block;
    modes.Restore();
  }
  auto traced = std::make_unique<TracedOps>();
  traced->block = Trace(arguments, &traced->ops);
  absl::StatusOr<int> block = traced->block;
  if (traced->ops.is_complete) by_signature_[arguments.signature].push_back(std::move(traced));
  return block;
}

absl::StatusOr<int> BlockTable::Trace(const BlockArguments& arguments, OpSequence* ops) {
  TraceOptions options = options_;
  options.name = absl::StrCat("block.", blocks_.size());
  options.grad_enabled = at::GradMode::is_enabled();
  const bool is_cast = at::autocast::is_autocast_enabled(at::kCPU);
  options.autocast = is_cast ? ToDType(at::autocast::get_autocast_dtype(at::kCPU)) : DType::kUndefined;
  options.backward = options.grad_enabled ? TraceOptions::Backward::kOutputs : TraceOptions::Backward::kNone;
  frames_.emplace_back();
  const auto leave = absl::MakeCleanup([this] { frames_.pop_back(); });
  absl::StatusOr<TracedBlock> traced =
      TraceBlock(arguments.body, arguments.states, ExamplesOf(arguments.inputs), options, ops);
  if (!traced.ok()) return absl::UnimplementedError(traced.status().message());
  const std::string fingerprint = absl::StrCat(arguments.signature, "\n", FingerprintOf(*traced));
  const auto [entry, is_new] = by_fingerprint_.try_emplace(fingerprint, static_cast<int>(blocks_.size()));
  if (is_new) blocks_.push_back(std::make_unique<TracedBlock>(*std::move(traced)));
  return entry->second;
}

BlockScope::BlockScope(BlockTable* table) : previous_(current_table) {
  if (table != nullptr) current_table = table;
}

BlockScope::~BlockScope() { current_table = previous_; }

BlockTable* BlockScope::Current() { return current_table; }

}  // namespace cotan::aot
