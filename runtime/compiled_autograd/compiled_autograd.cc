// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/compiled_autograd.h"

#include <algorithm>
#include <utility>

#include "linking/linked_artifact.h"
#include "serialization/container/container.h"

namespace cotan {
namespace {

CaptureState& State() {
  thread_local const std::unique_ptr<CaptureState> state = std::make_unique<CaptureState>();
  return *state;
}

}  // namespace

// What the thread of a scope keeps of it.
struct CompiledAutograd::Scope {
  std::unique_ptr<Executor> executor;  // null: backwards are walked
  std::shared_ptr<Scope> outer;
  bool is_open = true;
};

std::shared_ptr<CompiledAutograd::Scope>& CompiledAutograd::Innermost() {
  thread_local std::shared_ptr<Scope> innermost;
  return innermost;
}

class CompiledAutograd::Executor final : public autograd::BackwardExecutor {
 public:
  explicit Executor(const CompiledAutogradOptions& options)
      : settings_{.dynamic = options.dynamic,
                  .trace = options.trace,
                  .check_nan = options.check_nan,
                  .max_plans = std::max(1, options.max_plans),
                  .capture = options.capture,
                  .linked = options.linked,
                  .log = options.log == nullptr ? nullptr : std::make_shared<const CaptureLog>(options.log)} {}

  // A backward that a node or hook of another one starts is walked.
  absl::Status Execute(autograd::BackwardRun& run) override {
    CaptureState& state = State();
    if (state.is_running || run.is_nested()) return run.Walk();
    state.is_running = true;
    const absl::Status status = CaptureRun(run, state, settings_).Execute();
    state.is_running = false;
    return status;
  }

 private:
  const CaptureSettings settings_;
};

CompiledAutograd::CompiledAutograd(CompiledAutogradOptions options) : thread_(std::this_thread::get_id()) {
  Open(std::make_unique<Executor>(options));
}

CompiledAutograd::CompiledAutograd(DisabledTag) : thread_(std::this_thread::get_id()) { Open(nullptr); }

void CompiledAutograd::Open(std::unique_ptr<Executor> executor) {
  scope_ = std::make_shared<Scope>();
  scope_->executor = std::move(executor);
  scope_->outer = std::exchange(Innermost(), scope_);
  autograd::BackwardExecutor::SetCurrent(scope_->executor.get());
}

void CompiledAutograd::CloseUpTo(const std::shared_ptr<Scope>& end) {
  std::shared_ptr<Scope>& innermost = Innermost();
  while (innermost != end) {
    innermost->is_open = false;
    innermost = std::shared_ptr<Scope>(innermost->outer);
  }
  autograd::BackwardExecutor::SetCurrent(innermost == nullptr ? nullptr : innermost->executor.get());
}

CompiledAutograd::~CompiledAutograd() {
  if (std::this_thread::get_id() == thread_ && scope_->is_open) CloseUpTo(scope_->outer);
}

absl::Status CompiledAutograd::Close() {
  if (std::this_thread::get_id() != thread_) {
    return absl::FailedPreconditionError("the scope belongs to another thread: close it where it was opened");
  }
  if (!scope_->is_open) return absl::OkStatus();
  if (State().is_running) return absl::FailedPreconditionError("a captured backward is running: close the scope later");
  if (Innermost() != scope_) {
    return absl::FailedPreconditionError(
        "nested contexts must return before their parent: close the inner scope first");
  }
  CloseUpTo(scope_->outer);
  return absl::OkStatus();
}

bool CompiledAutograd::IsEnabled() { return Innermost() != nullptr && Innermost()->executor != nullptr; }
bool CompiledAutograd::IsRunning() { return State().is_running; }

absl::Status CompiledAutograd::Reset() {
  CaptureState& state = State();
  if (state.is_running) {
    return absl::FailedPreconditionError("a captured backward is running: reset compiled autograd after it");
  }
  CloseUpTo(nullptr);
  state.cache.Clear();
  state.segment.Clear();
  state.outputs.clear();
  state.arena = {};
  state.stats = {};
  state.reasons.clear();
  state.messages.clear();
  state.trace.clear();
  state.text.clear();
  state.steps.clear();
  return absl::OkStatus();
}

const CaptureStats& CompiledAutograd::Stats() { return State().stats; }
const std::vector<std::string>& CompiledAutograd::Reasons() { return State().reasons; }
const std::vector<std::string>& CompiledAutograd::Messages() { return State().messages; }
const std::vector<std::string>& CompiledAutograd::Trace() { return State().trace; }
const std::string& CompiledAutograd::Text() { return State().text; }
const std::string& CompiledAutograd::Steps() { return State().steps; }

absl::Status CompiledAutograd::SaveCaptures(const std::string& path) {
  const std::vector<serialization::Method> methods = State().cache.Methods();
  if (methods.empty()) {
    return absl::FailedPreconditionError("this thread has captured nothing: run the backwards in a scope first");
  }
  return ArtifactWriter().Finish(LinkedArtifact(methods), path);
}

}  // namespace cotan
