// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/multi_grad_hook.h"

#include <memory>

#include "absl/container/flat_hash_map.h"
#include "base/status_macros.h"
#include "runtime/autograd/backward_run.h"
#include "runtime/autograd/variable_state.h"

namespace cotan::autograd {
namespace {

// What the hooks of one AddMultiGradHook() share. Nodes and leaves are referenced weakly: their hooks own this object.
class Collector {
 public:
  Collector(MultiGradMode mode, MultiGradHook hook) : mode_(mode), hook_(std::move(hook)) {}

  absl::Status Add(const Variable& variable) {
    COTAN_ASSIGN_OR_RETURN(const Edge edge, variable.GradientEdge());
    Source source;
    if (variable.is_leaf()) {
      source.leaf = variable.state();
    } else {
      source.node = edge.node;
    }
    sources_.push_back(std::move(source));
    return absl::OkStatus();
  }

  absl::Status Arrived(size_t index, const Tensor& gradient) {
    if (mode_ == MultiGradMode::kAny && !gradient.defined()) return absl::OkStatus();
    BackwardRun& run = *BackwardRun::Current();
    if (!run.is_nested() && !runs_.contains(run.id())) runs_.clear();  // of backwards that have failed
    const auto [entry, is_new] = runs_.try_emplace(run.id());
    Progress& progress = entry->second;
    if (is_new) {
      progress.gradients.resize(sources_.size());
      progress.expected = mode_ == MultiGradMode::kAny ? 1 : NumReached(run);
    }
    if (progress.arrived == progress.expected) return absl::OkStatus();  // has run
    progress.gradients[index] = gradient;
    if (++progress.arrived != progress.expected) return absl::OkStatus();
    const Gradients gradients = std::move(progress.gradients);
    return hook_(gradients);
  }

 private:
  struct Source {
    std::weak_ptr<Node> node;
    std::weak_ptr<VariableState> leaf;  // its accumulating node may have been replaced
  };
  struct Progress {
    Gradients gradients;
    int arrived = 0;
    int expected = 0;
  };

  int NumReached(BackwardRun& run) const {
    int count = 0;
    for (const Source& source : sources_) {
      const std::shared_ptr<VariableState> leaf = source.leaf.lock();
      const std::shared_ptr<Node> node = leaf != nullptr ? leaf->accumulator.lock() : source.node.lock();
      count += node != nullptr && run.task().WillRun(node.get()) ? 1 : 0;
    }
    return count;
  }

  const MultiGradMode mode_;
  const MultiGradHook hook_;
  std::vector<Source> sources_;
  absl::flat_hash_map<uint64_t, Progress> runs_;
};

}  // namespace

void MultiGradHookHandle::Remove() {
  for (auto& [variable, id] : hooks_) variable.RemoveHook(id);
  hooks_.clear();
}

absl::StatusOr<MultiGradHookHandle> AddMultiGradHook(absl::Span<const Variable> variables, MultiGradMode mode,
                                                     MultiGradHook hook) {
  const auto collector = std::make_shared<Collector>(mode, std::move(hook));
  MultiGradHookHandle handle;
  for (size_t i = 0; i < variables.size(); ++i) {
    Variable variable = variables[i];
    const auto arrived = [collector, i](const Tensor& gradient) -> absl::StatusOr<Tensor> {
      COTAN_RETURN_IF_ERROR(collector->Arrived(i, gradient));
      const Tensor keep;
      return keep;
    };
    absl::StatusOr<HookId> id = variable.AddHook(arrived);
    if (id.ok()) handle.hooks_.emplace_back(variable, *id);
    const absl::Status added = id.ok() ? collector->Add(variable) : id.status();
    if (added.ok()) continue;
    handle.Remove();
    return added;
  }
  return handle;
}

}  // namespace cotan::autograd
