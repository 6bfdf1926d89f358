// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/view_inverses.h"

#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/TensorOperators.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/ops/ne.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/unfold_backward.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/where.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "aot/capture/proxy_tensor.h"

namespace cotan::aot {
namespace {

using at::functionalization::ViewMeta;
using ViewMetas = std::vector<std::shared_ptr<ViewMeta>>;

class Windows final : public ViewMeta {
 public:
  Windows(int64_t dim, int64_t size, int64_t step)
      : ViewMeta(/*has_symbolic_inputs=*/false), dim_(dim), size_(size), step_(step) {}

  at::Tensor forward(const at::Tensor& base) override { return base.unfold(dim_, size_, step_); }

  at::Tensor reverse(const at::Tensor& base, const at::Tensor& windows) override {
    const int64_t length = base.dim() == 0 ? 1 : base.size(dim_);
    const int64_t count = (length - size_) / step_ + 1;
    TORCH_CHECK(count == 1 || size_ <= step_, "a write to windows that overlap (unfold of size ", size_, ", step ",
                step_, ") is not defined: an element is written several times; write to a clone of the windows");
    const at::Tensor written = at::unfold_backward(windows, base.sizes(), dim_, size_, step_);
    if (count * size_ == length) return written;
    const at::Tensor ones = at::ones(windows.sizes(), at::TensorOptions(at::kFloat));
    const at::Tensor is_written = at::ne(at::unfold_backward(ones, base.sizes(), dim_, size_, step_), 0);
    return at::where(is_written, written, base);
  }

 private:
  int64_t dim_, size_, step_;
};

// expand. The inverse of an expand that repeats no element is a reshape, which works for all dtypes.
// FunctionalInverses::expand_inverse, which is used for all others, subtracts; bool does not support that.
class Expanded final : public ViewMeta {
 public:
  explicit Expanded(std::shared_ptr<ViewMeta> original)
      : ViewMeta(/*has_symbolic_inputs=*/false), original_(std::move(original)) {}

  at::Tensor forward(const at::Tensor& base) override { return original_->forward(base); }

  at::Tensor reverse(const at::Tensor& base, const at::Tensor& view) override {
    return view.numel() == base.numel() ? view.reshape(base.sizes()) : original_->reverse(base, view);
  }

 private:
  std::shared_ptr<ViewMeta> original_;
};

// view_as_complex. FunctionalInverses::view_as_complex_inverse calls resolve_conj(), which has no effect on
// a proxy: the conj bit is on its real tensor.
class Complex final : public ViewMeta {
 public:
  Complex() : ViewMeta(/*has_symbolic_inputs=*/false) {}

  at::Tensor forward(const at::Tensor& base) override { return at::view_as_complex(base); }

  at::Tensor reverse(const at::Tensor&, const at::Tensor& view) override {
    const ProxyTensorImpl* proxy = AsProxy(view);
    return at::view_as_real(proxy != nullptr && proxy->real().is_conj() ? view.clone() : view);
  }
};

}  // namespace

ViewInverse::ViewInverse(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const std::string& name = op.schema().name();
  if (name == "aten::as_strided" || name == "aten::as_strided_") kind_ = Kind::kAsStrided;
  if (name == "aten::expand") kind_ = Kind::kExpand;
  if (name == "aten::view_as_complex") kind_ = Kind::kComplex;
  if (name != "aten::unfold") return;
  kind_ = Kind::kUnfold;
  dim_ = at::maybe_wrap_dim(torch::jit::peek(stack, 1, 4).toInt(), torch::jit::peek(stack, 0, 4).toTensor().dim());
  size_ = torch::jit::peek(stack, 2, 4).toInt();
  step_ = torch::jit::peek(stack, 3, 4).toInt();
}

void ViewInverse::Mend(const torch::jit::Stack& stack) const {
  if (kind_ == Kind::kOther) return;
  const at::Tensor view = torch::jit::peek(stack, 0, 1).toTensor();
  if (!at::functionalization::impl::isFunctionalTensor(view)) return;
  // FunctionalTensorWrapper has no mutable access to its own list, which is not const.
  auto& metas = const_cast<ViewMetas&>(at::functionalization::impl::unsafeGetFunctionalWrapper(view)->view_metas());
  if (metas.empty()) return;
  if (kind_ == Kind::kAsStrided) {
    metas.back()->is_as_strided = false;
  } else if (kind_ == Kind::kExpand) {
    metas.back() = std::make_shared<Expanded>(metas.back());
  } else if (kind_ == Kind::kComplex) {
    metas.back() = std::make_shared<Complex>();
  } else {
    metas.back() = std::make_shared<Windows>(dim_, size_, step_);
  }
}

}  // namespace cotan::aot
