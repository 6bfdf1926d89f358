// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/mirror.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <exception>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "aot/capture/tensor_data.h"
#include "base/status_macros.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/grad_mode.h"
#include "testing/conformance/harness/eager_run.h"

namespace cotan::conformance {
namespace {

absl::StatusOr<std::shared_ptr<Storage>> CopyStorage(const at::Tensor& tensor, Device& device) {
  const at::Storage& from = tensor.storage();
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<Storage> to, Storage::Allocate(device, from.nbytes()));
  if (from.nbytes() > 0) COTAN_RETURN_IF_ERROR(device.CopyFromHost(to->data(), from.data(), from.nbytes()));
  return to;
}

// The gradients of `tensor` with respect to the leaves, by LibTorch, on the device of the incoming one.
absl::StatusOr<autograd::Gradients> LibTorchGradients(const at::Tensor& tensor, const std::vector<at::Tensor>& leaves,
                                                      absl::Span<Tensor> incoming) {
  autograd::Gradients gradients(leaves.size());
  if (!incoming[0].defined()) return gradients;
  COTAN_ASSIGN_OR_RETURN(const at::Tensor tangent, ToTorch(incoming[0]));
  std::vector<at::Tensor> found;
  try {
    found = torch::autograd::grad({tensor}, leaves, {tangent}, /*retain_graph=*/true,
                                  /*create_graph=*/false, /*allow_unused=*/true);
  } catch (const std::exception& e) {
    return absl::InternalError(absl::StrCat("LibTorch's part of the backward: ", e.what()));
  }
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].defined()) continue;
    COTAN_ASSIGN_OR_RETURN(gradients[i], ToCotan(found[i], incoming[0].device()));
  }
  return gradients;
}

// Returns whether `complex` is complex and `parts` has the dtype of its real and imaginary parts.
bool IsComplexOf(const at::Tensor& complex, const at::Tensor& parts) {
  return complex.is_complex() && c10::toRealValueType(complex.scalar_type()) == parts.scalar_type();
}

// Mirrors tensors one by one, each once.
class Mirroring {
 public:
  explicit Mirroring(Device& device) : device_(device) {}

  absl::StatusOr<Variable> Find(const at::Tensor& tensor) {
    const auto found = variables_.find(tensor.unsafeGetTensorImpl());
    if (found != variables_.end()) return found->second;
    COTAN_ASSIGN_OR_RETURN(const Variable variable, Make(tensor));
    variables_[tensor.unsafeGetTensorImpl()] = variable;
    owners_.try_emplace(tensor.storage().unsafeGetStorageImpl(), tensor);
    return variable;
  }

 private:
  absl::StatusOr<Variable> Make(const at::Tensor& tensor) {
    if (tensor.is_view()) return ViewOf(tensor);
    if (!tensor.is_leaf()) return Computed(tensor);
    const auto owner = owners_.find(tensor.storage().unsafeGetStorageImpl());
    if (owner != owners_.end()) {  // a detached alias
      COTAN_ASSIGN_OR_RETURN(const Variable owner_variable, Find(owner->second));
      COTAN_ASSIGN_OR_RETURN(const Variable alias, AliasOf(owner_variable, owner->second, tensor));
      return alias.Detach();
    }
    COTAN_ASSIGN_OR_RETURN(Tensor elements, InMirroredStorage(tensor));
    if (tensor.requires_grad()) return Variable::Leaf(std::move(elements));
    return Variable(std::move(elements));
  }

  absl::StatusOr<Variable> ViewOf(const at::Tensor& tensor) {
    const at::Tensor base(tensor._base());
    COTAN_ASSIGN_OR_RETURN(const Variable base_variable, Find(base));
    const GradModeGuard mode(!MadeWithoutGrad(tensor));
    return AliasOf(base_variable, base, tensor);
  }

  // Returns the view of `base_variable` that corresponds to `tensor`, which shares memory with
  // `base`.
  absl::StatusOr<Variable> AliasOf(const Variable& base_variable, const at::Tensor& base, const at::Tensor& tensor) {
    std::vector<ViewStep> steps;
    const DType dtype = aot::ToDType(tensor.scalar_type());
    const int64_t capacity = static_cast<int64_t>(base.storage().nbytes() / base.element_size());
    if (base.scalar_type() == tensor.scalar_type()) {
      if (tensor.is_conj() != base.is_conj()) steps.push_back(view::Conjugate());
      if (tensor.is_neg() != base.is_neg()) steps.push_back(view::Negate());
    } else if (IsComplexOf(base, tensor)) {
      steps.push_back(view::ViewAsReal());
    } else if (IsComplexOf(tensor, base)) {
      steps.push_back(view::AsStrided{.sizes = {capacity / 2, 2}, .strides = {2, 1}, .offset = 0});
      steps.push_back(view::ViewAsComplex());
    } else {
      steps.push_back(view::AsStrided{.sizes = {capacity}, .strides = {1}, .offset = 0});
      steps.push_back(view::DTypeView{.dtype = dtype});
    }
    if (steps.empty()) return base_variable.AsStrided(aot::LayoutOf(tensor));
    view::AsStrided geometry;
    geometry.offset = tensor.storage_offset();
    for (int64_t size : tensor.sizes()) geometry.sizes.push_back(size);
    for (int64_t stride : tensor.strides()) geometry.strides.push_back(stride);
    steps.push_back(geometry);
    return base_variable.View(steps);
  }

  // Only the leaves that it was computed from: a node keeps the geometry of its leaves' gradients.
  absl::StatusOr<Variable> Computed(const at::Tensor& tensor) {
    const std::vector<at::Tensor> leaves = LeavesBehind({tensor});
    std::vector<Variable> mirrored;
    for (const at::Tensor& leaf : leaves) {
      COTAN_ASSIGN_OR_RETURN(mirrored.emplace_back(), Find(leaf));
    }
    COTAN_ASSIGN_OR_RETURN(Tensor elements, InMirroredStorage(tensor));
    COTAN_ASSIGN_OR_RETURN(
        std::vector<Variable> made,
        autograd::ApplyFunction("LibTorchBackward", mirrored, {std::move(elements)},
                                [tensor, leaves](autograd::BackwardContext&, absl::Span<Tensor> incoming) {
                                  return LibTorchGradients(tensor, leaves, incoming);
                                }));
    return made[0];
  }

  absl::StatusOr<Tensor> InMirroredStorage(const at::Tensor& tensor) {
    std::shared_ptr<Storage>& storage = storages_[tensor.storage().unsafeGetStorageImpl()];
    if (storage == nullptr) {
      COTAN_ASSIGN_OR_RETURN(storage, CopyStorage(tensor, device_));
    }
    return Tensor::InStorage(storage, aot::ToDType(tensor.scalar_type()), aot::LayoutOf(tensor));
  }

  Device& device_;
  absl::flat_hash_map<const void*, Variable> variables_;                 // by tensor
  absl::flat_hash_map<const void*, std::shared_ptr<Storage>> storages_;  // by LibTorch's storage
  absl::flat_hash_map<const void*, at::Tensor> owners_;                  // its first tensor, by the same
};

}  // namespace

absl::StatusOr<Tensor> ToCotan(const at::Tensor& tensor, Device& device) {
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<Storage> storage, CopyStorage(tensor, device));
  return Tensor::InStorage(std::move(storage), aot::ToDType(tensor.scalar_type()), aot::LayoutOf(tensor));
}

absl::StatusOr<at::Tensor> ToTorch(const Tensor& tensor) {
  COTAN_ASSIGN_OR_RETURN(const Tensor host, tensor.ToHost());
  const at::TensorOptions options(aot::ToScalarType(host.dtype()));
  const std::vector<int64_t> sizes(host.sizes().begin(), host.sizes().end());
  if (host.num_elements() == 0) return at::empty(sizes, options);
  return at::from_blob(host.address(), sizes, options).clone();
}

absl::StatusOr<MirroredInputs> ToVariables(const CaseInputs& in, Device& device) {
  const GradModeGuard mode(true);
  Mirroring mirroring(device);
  MirroredInputs mirrored;
  for (const at::Tensor& root : in.roots) {
    COTAN_ASSIGN_OR_RETURN(mirrored.roots.emplace_back(), mirroring.Find(root));
  }
  // Tensors with a grad_fn come before their detached aliases.
  for (const at::Tensor& input : in.inputs) {
    if (input.requires_grad()) COTAN_RETURN_IF_ERROR(mirroring.Find(input).status());
  }
  for (const at::Tensor& input : in.inputs) {
    COTAN_ASSIGN_OR_RETURN(mirrored.inputs.emplace_back(), mirroring.Find(input));
  }
  return mirrored;
}

}  // namespace cotan::conformance
