// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/mutation_checks.h"

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/layout.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/session/memory_overlap.h"
#include "runtime/tensor/tensor.h"
#include "serialization/metadata/view_geometry.h"

namespace cotan {
namespace {

size_t BytesOf(const Tensor& tensor, const StridedLayout& layout) {
  return static_cast<size_t>(StorageExtent(layout)) * ByteSize(tensor.dtype());
}

// Returns whether the tensor needs a larger storage for `layout` (resize_()).
bool NeedsLargerStorage(const Tensor& tensor, const StridedLayout& layout) {
  return BytesOf(tensor, layout) > tensor.storage()->bytes();
}

// Returns whether each element of `part` is an element of `whole`.
bool IsPartOf(const StridedLayout& whole, const StridedLayout& part) {
  if (!IsDenseNonOverlapping(whole)) return Covers(whole, part);
  return NumElements(part.sizes) == 0 || (part.offset >= whole.offset && StorageExtent(part) <= StorageExtent(whole));
}

// set_() to the storage of another argument, `owner`. Returns the input's new tensor in that storage. InvalidArgument:
// `owner` has another layout than when traced, except for the storage offset.
absl::StatusOr<Tensor> InStorageOfArgument(const StorageMutation& set, const Tensor& owner, const CallContext& call) {
  const FunctionMetadata& function = call.function;
  if (set.covers_owner) return owner;
  COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(set.geometry, call.symbols()));
  COTAN_ASSIGN_OR_RETURN(StridedLayout traced, EvaluateLayout(set.owner_geometry_at_entry, call.symbols()));
  const auto bytes = static_cast<int64_t>(ByteSize(set.geometry.dtype));
  const int64_t shift =
      (owner.layout().offset - traced.offset) * static_cast<int64_t>(ByteSize(set.owner_geometry_at_entry.dtype));
  traced.offset = owner.layout().offset;
  if (owner.layout() != traced || shift % bytes != 0) {
    return Refuse(function, "argument '", function.input(set.owner_input).name, "', to whose storage argument '",
                  function.input(set.input).name, "' is set (set_()), was ", set.owner_geometry_at_entry.ToString(),
                  " when the program was traced; the one given is ", owner.ToString());
  }
  layout.offset += shift / bytes;
  return Tensor::InStorage(owner.storage(), set.geometry.dtype, std::move(layout));
}

absl::Status FindStorageOwners(CallContext& call) {
  const FunctionMetadata& function = call.function;
  for (size_t i = 0; i < function.mutations.storage.size(); ++i) {
    const StorageMutation& set = function.mutations.storage[i];
    if (set.owner != NewStorage::Owner::kInput) continue;
    const Tensor& owner = call.input(set.owner_input).tensor();
    COTAN_ASSIGN_OR_RETURN(call.shown_storages[i], InStorageOfArgument(set, owner, call));
  }
  return absl::OkStatus();
}

// Checks that the storage has the elements of the new geometry and, if data is written there, that the write overlaps
// no other input or state.
absl::Status CheckNewGeometry(const CallContext& call, const MetadataMutation& change, const StridedLayout& layout) {
  const Variable& target = call.input(change.input);
  const Tensor& before = target.tensor();
  const bool grows = NeedsLargerStorage(before, layout);
  if (!grows && !change.is_written) return absl::OkStatus();
  const bool has_more = NumElements(layout.sizes) > before.num_elements();  // resize_() in a storage with room
  if (!grows && !has_more && !IsPartOf(before.layout(), layout)) {
    return Refuse(call.function, "argument '", call.function.input(change.input).name, "' is written with the layout ",
                  ToString(layout), " in its storage, some elements of which the one given, with the layout ",
                  ToString(before.layout()),
                  ", does not have: pass it with the layout that it had when the program was traced");
  }
  if (change.method_input < 0) return absl::OkStatus();
  return call.core.forward(call.is_recorded)
      .CheckWrite(change.method_input, {before.storage().get(), &layout, before.dtype()}, call.tensors, 0);
}

// Checks that input `last` does not overlap earlier ones in the new geometry where both are written: the order of
// writes is not that of the traced function.
absl::Status CheckNewGeometriesApart(const CallContext& call, size_t last) {
  const FunctionMetadata& function = call.function;
  const auto region = [&](size_t i) {
    const Tensor& tensor = call.input(function.mutations.metadata[i].input).tensor();
    return MemoryRegion{tensor.storage().get(), &call.new_layouts[i], tensor.dtype()};
  };
  if (!function.mutations.metadata[last].is_written) return absl::OkStatus();
  for (size_t i = 0; i < last; ++i) {
    if (!function.mutations.metadata[i].is_written || !Overlap(region(i), region(last))) continue;
    return Refuse(function, "arguments '", function.input(function.mutations.metadata[i].input).name, "' and '",
                  function.input(function.mutations.metadata[last].input).name,
                  "' are written and share memory in their new geometry; they did not when the program was traced");
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> AllocateGrown(const Tensor& tensor, const StridedLayout& layout) {
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<Storage> larger, Storage::Allocate(tensor.device(), BytesOf(tensor, layout)));
  return Tensor::InStorage(std::move(larger), tensor.dtype(), layout);
}

// Returns whether both layouts place each element alike.
bool HaveSamePlaces(const StridedLayout& a, const StridedLayout& b) {
  if (a.sizes != b.sizes || a.offset != b.offset) return false;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] > 1 && a.strides[d] != b.strides[d]) return false;
  }
  return true;
}

// Returns the layout that the steps of a metadata mutation give to the argument.
absl::StatusOr<StridedLayout> ApplySteps(const CallContext& call, const MetadataMutation& change) {
  const Tensor& given = call.input(change.input).tensor();
  ViewGeometry geometry = {given.dtype(), given.layout()};
  for (const ViewStep& step : change.steps) {
    absl::StatusOr<ViewGeometry> next = ApplyViewStep(step, geometry, call.symbols());
    if (!next.ok()) {
      return Refuse(call.function, "the geometry of argument '", call.function.input(change.input).name, "', which is ",
                    given.ToString(), ", cannot be changed as in the traced function: ", next.status().message());
    }
    geometry = *std::move(next);
  }
  return std::move(geometry.layout);
}

// Returns the layout of a metadata-mutated input at exit.
absl::StatusOr<StridedLayout> LayoutAtExit(const CallContext& call, const MetadataMutation& change) {
  if (!change.steps.empty()) return ApplySteps(call, change);
  const Tensor& given = call.input(change.input).tensor();
  COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(change.geometry, call.symbols()));
  if (change.at_entry.has_value()) {
    COTAN_ASSIGN_OR_RETURN(const StridedLayout traced, EvaluateLayout(*change.at_entry, call.symbols()));
    if (HaveSamePlaces(given.layout(), traced)) return layout;
    return Refuse(call.function, "argument '", call.function.input(change.input).name,
                  "', whose geometry is set (as_strided_, resize_), was ", change.at_entry->ToString(),
                  " when the program was traced; the one given is ", given.ToString(),
                  ": pass it with the strides and the offset that it had");
  }
  if (!change.traced.has_value()) return layout;
  COTAN_ASSIGN_OR_RETURN(const StridedLayout traced, EvaluateLayout(*change.traced, call.symbols()));
  layout.offset += given.layout().offset - traced.offset;
  return layout;
}

// Computes and checks the new layouts of metadata-mutated inputs before anything is written.
absl::Status FindNewGeometries(CallContext& call) {
  const FunctionMetadata& function = call.function;
  for (size_t i = 0; i < function.mutations.metadata.size(); ++i) {
    const MetadataMutation& change = function.mutations.metadata[i];
    COTAN_ASSIGN_OR_RETURN(StridedLayout layout, LayoutAtExit(call, change));
    const Variable& target = call.input(change.input);
    COTAN_RETURN_IF_ERROR(CheckNewGeometry(call, change, layout));
    if (!function.input(change.input).is_detached() && !target.is_view()) {
      const GradModeGuard mode(call.IsTracked(change));
      COTAN_RETURN_IF_ERROR(target.CheckInPlace(target.requires_grad()));
    }
    if (NeedsLargerStorage(target.tensor(), layout)) {
      COTAN_ASSIGN_OR_RETURN(call.grown_inputs[i], AllocateGrown(target.tensor(), layout));
    }
    call.new_layouts[i] = std::move(layout);
    COTAN_RETURN_IF_ERROR(CheckNewGeometriesApart(call, i));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckMutations(CallContext& call) {
  if (!call.shown_storages.empty()) COTAN_RETURN_IF_ERROR(FindStorageOwners(call));
  if (!call.new_layouts.empty()) COTAN_RETURN_IF_ERROR(FindNewGeometries(call));
  return absl::OkStatus();
}

}  // namespace cotan
