// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/result_placement.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "runtime/autograd/hooks.h"
#include "runtime/autograd/tensor_ops.h"

namespace cotan {
namespace {

// Copies `from` to `to`, whose elements overlap. Elements that share a location have equal values: expanded dimensions
// are copied once, other overlapping ones index by index.
absl::Status WriteOverlapping(TensorOps& ops, const Tensor& from, const Tensor& to) {
  StridedLayout source = from.layout();
  StridedLayout target = to.layout();
  for (size_t d = 0; d < target.sizes.size(); ++d) {
    if (target.strides[d] == 0) source.sizes[d] = target.sizes[d] = std::min<int64_t>(target.sizes[d], 1);
  }
  size_t split = 0;
  while (split < target.sizes.size() && target.sizes[split] < 2) ++split;
  const bool overlaps = OverlapsItself(target) && split < target.sizes.size();
  const int64_t parts = overlaps ? target.sizes[split] : 1;
  if (overlaps) source.sizes[split] = target.sizes[split] = 1;
  for (int64_t i = 0; i < parts; ++i) {
    COTAN_ASSIGN_OR_RETURN(const Tensor part, Tensor::InStorage(from.storage(), from.dtype(), source));
    COTAN_ASSIGN_OR_RETURN(const Tensor place, Tensor::InStorage(to.storage(), to.dtype(), target));
    COTAN_RETURN_IF_ERROR(overlaps ? WriteOverlapping(ops, part, place) : ops.Copy(part, place));
    if (!overlaps) break;
    source.offset += source.strides[split];
    target.offset += target.strides[split];
  }
  return absl::OkStatus();
}

}  // namespace

ResultPlacement::ResultPlacement(const FunctionMetadata& function) : function_(function) {
  for (const StorageMutation& set : function.mutations.storage) {
    if (set.owner == NewStorage::Owner::kProgram) strided_.push_back({set.result, set.result, set.storage_geometry});
  }
  const ReturnedValues& returned = function.returned;
  for (const TangentMeta& tangent : function.metadata.facts().tangents) {
    if (tangent.source.kind != ForwardTensor::Kind::kIntermediateBase) continue;
    const int result = returned.at(returned.of_bases[static_cast<size_t>(tangent.source.index)]).result;
    strided_.push_back({result, result, tangent.expected});
  }
  for (size_t i = 0; i < returned.of_outputs.size(); ++i) {
    const int index = returned.of_outputs[i];
    const OutputAliasInfo& info = function.metadata.output(static_cast<int>(i));
    if (index < 0 || !info.geometry.has_value() || returned.at(index).reading.has_value()) continue;
    strided_.push_back({returned.at(index).result, returned.OwnerOf(index), *info.geometry});
  }
}

// --- layouts -----------------------------------------------------------------

absl::Status ResultPlacement::EvaluateLayouts(const Plan& plan) {
  if (is_valid_ && symbols_ == plan.symbols) return absl::OkStatus();
  const auto num_results = static_cast<size_t>(function_.num_results);
  is_valid_ = false;
  layouts_.clear();
  symbols_ = plan.symbols;
  strided_of_.assign(num_results, -1);
  is_placed_.assign(num_results, false);
  is_overlapping_.assign(num_results, false);
  storage_bytes_.assign(num_results, 0);
  for (size_t i = 0; i < strided_.size(); ++i) COTAN_RETURN_IF_ERROR(AddLayout(plan, i));
  for (const HiddenBase& base : function_.returned.hidden_bases) {
    const auto owner = static_cast<size_t>(function_.returned.OwnerOf(base.returned));
    COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, EvaluateLayout(base.geometry, plan.symbols));
    size_t& bytes = storage_bytes_[owner];
    bytes = std::max(bytes, static_cast<size_t>(StorageExtent(layout)) * ByteSize(base.geometry.dtype));
  }
  is_valid_ = true;
  return absl::OkStatus();
}

absl::Status ResultPlacement::AddLayout(const Plan& plan, size_t index) {
  const auto bytes_of = [&plan](size_t result, const StridedLayout& layout) {
    return static_cast<size_t>(StorageExtent(layout)) * ByteSize(plan.outputs[result].dtype);
  };
  const auto result = static_cast<size_t>(strided_[index].result);
  const auto owner = static_cast<size_t>(strided_[index].owner);
  COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(strided_[index].geometry, plan.symbols));
  if (layout.sizes != plan.outputs[result].layout.sizes) {
    return Refuse(function_, "result ", result, " is ", ToString(plan.outputs[result].layout),
                  ", but its metadata has ", ToString(layout));
  }
  strided_of_[result] = static_cast<int>(index);
  is_placed_[result] = is_placed_[owner] = true;
  size_t& bytes = storage_bytes_[owner];
  if (owner != result) bytes = std::max(bytes, bytes_of(owner, plan.outputs[owner].layout));
  bytes = std::max(bytes, bytes_of(result, layout));
  is_overlapping_[result] = OverlapsItself(layout);
  layouts_.push_back(std::move(layout));
  return absl::OkStatus();
}

// --- before the program runs -------------------------------------------------

absl::Status ResultPlacement::Place(CallContext& call) {
  const std::vector<ResultBuffer>& kinds = call.executable->plan().places;
  if (!strided_.empty()) COTAN_RETURN_IF_ERROR(EvaluateLayouts(call.executable->plan()));
  for (int r = 0; r < function_.num_results; ++r) {
    if (kinds[static_cast<size_t>(r)].kind != ResultBuffer::Kind::kOwn) continue;
    if (r >= function_.first_saved && r < function_.num_outputs) {
      COTAN_RETURN_IF_ERROR(PlaceSaved(call, r));
    } else if (strided_.empty() || !is_placed_[static_cast<size_t>(r)]) {
      autograd::Clear(call.result(r));
      COTAN_RETURN_IF_ERROR(call.executable->SetOutput(r, call.result(r)));
    } else if (IsOwner(r)) {
      COTAN_RETURN_IF_ERROR(PlaceStrided(call, r));
    }
  }
  // All owners have a storage now.
  for (const StridedResult& strided : strided_) {
    if (strided.owner != strided.result) COTAN_RETURN_IF_ERROR(PlaceStrided(call, strided.result));
  }
  return absl::OkStatus();
}

absl::Status ResultPlacement::PlaceSaved(CallContext& call, int result) const {
  Tensor& value = call.result(result);
  value = call.core.AcquireSavedBuffer(result - function_.first_saved);
  const Storage* const reused = value.storage().get();
  COTAN_RETURN_IF_ERROR(call.executable->SetOutput(result, value));
  if (reused != nullptr && value.storage().get() == reused) ++call.core.stats().saved_reused;
  return absl::OkStatus();
}

bool ResultPlacement::IsOwner(int result) const {
  const int at = strided_of_[static_cast<size_t>(result)];
  return at < 0 || strided_[static_cast<size_t>(at)].owner == result;
}

// Allocates a result that is not dense or that shares its storage with other results. The storage of the owner must
// have been allocated.
absl::Status ResultPlacement::PlaceStrided(CallContext& call, int result) {
  const auto r = static_cast<size_t>(result);
  const TensorSpec& spec = call.executable->plan().outputs[r];
  const int at = strided_of_[r];
  const StridedLayout& layout = at < 0 ? spec.layout : layouts_[static_cast<size_t>(at)];
  const int owner = at < 0 ? result : strided_[static_cast<size_t>(at)].owner;
  std::shared_ptr<Storage> storage;
  if (owner == result) {
    COTAN_ASSIGN_OR_RETURN(storage, Storage::Allocate(*call.core.session().target().device, storage_bytes_[r]));
  } else {
    storage = StorageOf(call, owner);
  }
  COTAN_ASSIGN_OR_RETURN(call.results[r], Tensor::InStorage(std::move(storage), spec.dtype, layout));
  if (!is_overlapping_[r]) return call.executable->SetStridedOutput(result, call.results[r]);
  overlapping_.emplace_back(result, std::exchange(call.results[r], Tensor()));
  return call.executable->SetOutput(result, call.results[r]);
}

// Returns the storage that a result has at the end of the call.
const std::shared_ptr<Storage>& ResultPlacement::StorageOf(CallContext& call, int result) const {
  for (const auto& [overlapping, place] : overlapping_) {
    if (overlapping == result) return place.storage();
  }
  return call.result(result).storage();
}

// --- after the program has run -----------------------------------------------

absl::Status ResultPlacement::Finish(CallContext& call) {
  const std::vector<ResultBuffer>& kinds = call.executable->plan().places;
  for (size_t r = 0; r < kinds.size(); ++r) {
    const auto at = static_cast<size_t>(kinds[r].index);
    if (kinds[r].kind == ResultBuffer::Kind::kInput) call.results[r] = *call.tensors[at];
    if (kinds[r].kind == ResultBuffer::Kind::kResult) call.results[r] = call.results[at];
  }
  for (auto& [result, place] : overlapping_) {
    COTAN_RETURN_IF_ERROR(WriteOverlapping(call.core.session().ops(), call.result(result), place));
    call.result(result) = std::move(place);
  }
  overlapping_.clear();
  return absl::OkStatus();
}

}  // namespace cotan
