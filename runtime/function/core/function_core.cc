// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/core/function_core.h"

#include <utility>

#include "linking/fingerprint.h"

namespace cotan {
namespace {

// Returns the options of a forward that does not compute saved values.
ScheduleOptions WithoutSaving(const FunctionMetadata& metadata) {
  ScheduleOptions options = {.results = metadata.requests, .donated = {}};
  for (ResultRequest& request : options.results) {
    if (request.use == ResultUse::kSave) request.use = ResultUse::kSkip;
  }
  return options;
}

}  // namespace

FunctionCore::FunctionCore(std::shared_ptr<SessionCore> session, FunctionMetadata metadata)
    : session_(std::move(session)),
      metadata_(std::move(metadata)),
      recorded_forward_(*session_, metadata_.method, 0, {.results = metadata_.requests, .donated = {}}),
      plain_forward_(*session_, metadata_.method, 0, WithoutSaving(metadata_)),
      plain_backward_(*session_, metadata_.backward.method, metadata_.num_saved),
      donated_backward_(*session_, metadata_.backward.method, metadata_.num_saved,
                        {.results = {}, .donated = metadata_.backward.donated}),
      freed_(static_cast<size_t>(metadata_.num_saved)) {}

uint64_t FunctionCore::backward_fingerprint() {
  if (!backward_fingerprint_.has_value()) {
    backward_fingerprint_ = MethodFingerprint(metadata_.program->artifact(), metadata_.backward.method);
  }
  return *backward_fingerprint_;
}

Tensor FunctionCore::AcquireSavedBuffer(int index) {
  std::vector<Tensor>& freed = freed_[static_cast<size_t>(index)];
  if (freed.empty()) return Tensor();
  Tensor memory = std::move(freed.back());
  freed.pop_back();
  return memory;
}

void FunctionCore::ReleaseSavedBuffer(int index, Tensor memory) {
  if (memory.defined() && memory.storage().use_count() == 1) {
    freed_[static_cast<size_t>(index)].push_back(std::move(memory));
  }
}

}  // namespace cotan
