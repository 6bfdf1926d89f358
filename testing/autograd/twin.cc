// SPDX-License-Identifier: Apache-2.0

#include "testing/autograd/twin.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/variable.h>

#include <cstring>
#include <functional>
#include <memory>
#include <sstream>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/saved_variable.h"
#include "runtime/autograd/tensor_ops.h"

namespace cotan::testing {
namespace {

using autograd::BackwardContext;
using autograd::Gradients;
using autograd::Node;
using autograd::SavedVariable;

TensorOps& Ops() {
  static TensorOps& ops = *new TensorOps(CpuKernels());
  return ops;
}

at::ScalarType ToTheirs(DType dtype) {
  switch (dtype) {
    case DType::kInt64:
      return at::kLong;
    case DType::kInt32:
      return at::kInt;
    case DType::kFloat64:
      return at::kDouble;
    case DType::kComplex64:
      return at::kComplexFloat;
    default:
      return at::kFloat;
  }
}

DType ToOurs(at::ScalarType dtype) {
  for (const DType ours : {DType::kInt64, DType::kInt32, DType::kFloat64, DType::kComplex64}) {
    if (ToTheirs(ours) == dtype) return ours;
  }
  return DType::kFloat32;
}

at::IntArrayRef Refer(absl::Span<const int64_t> numbers) { return {numbers.data(), numbers.size()}; }

// Returns a LibTorch tensor over the memory of a runtime tensor.
at::Tensor Wrap(const Tensor& tensor) {
  return at::from_blob(tensor.address(), Refer(tensor.sizes()), Refer(tensor.layout().strides),
                       at::TensorOptions().dtype(ToTheirs(tensor.dtype())));
}

// Returns a row-major copy of a LibTorch tensor; if it is row-major already, dimensions of size 1 keep
// their strides.
Tensor Copied(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().contiguous();
  StridedLayout layout;
  layout.sizes.assign(dense.sizes().begin(), dense.sizes().end());
  layout.strides.assign(dense.strides().begin(), dense.strides().end());
  Tensor copy = *Tensor::EmptyStrided(ToOurs(tensor.scalar_type()), std::move(layout));
  if (dense.numel() != 0) std::memcpy(copy.address(), dense.data_ptr(), dense.nbytes());
  return copy;
}

// Arithmetic of the runtime's autograd, computed by LibTorch.
Tensor Compute(const std::function<at::Tensor()>& compute) {
  at::NoGradGuard no_grad;
  return Copied(compute());
}

class ScaleNode final : public Node {
 public:
  explicit ScaleNode(double factor) : factor_(factor) {}
  absl::string_view name() const override { return "Scale"; }
  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    Gradients results(1);
    if (incoming[0].defined()) results[0] = Compute([&] { return Wrap(incoming[0]) * factor_; });
    return results;
  }

 private:
  const double factor_;
};

class SumNode final : public Node {
 public:
  absl::string_view name() const override { return "Sum"; }
  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    return Gradients{incoming[0], incoming[0]};
  }
};

// Saves each factor for which the gradient of the other factor is needed.
class ProductNode final : public Node {
 public:
  ProductNode(const Variable& a, const Variable& b)
      : has_{HasEdge(b), HasEdge(a)},
        factors_{has_[0] ? SavedVariable(a) : SavedVariable(), has_[1] ? SavedVariable(b) : SavedVariable()} {}
  absl::string_view name() const override { return "Product"; }
  absl::StatusOr<Gradients> Apply(BackwardContext& context, absl::Span<Tensor> incoming) override {
    Gradients results(2);
    for (size_t i = 0; i < 2; ++i) {
      if (!has_[1 - i]) continue;
      COTAN_ASSIGN_OR_RETURN(const Tensor factor, factors_[1 - i].Unpack(*this));
      if (incoming[0].defined()) results[i] = Compute([&] { return Wrap(incoming[0]) * Wrap(factor); });
    }
    return results;
  }
  void ReleaseSaved() override {
    for (SavedVariable& factor : factors_) factor.Release();
  }

 private:
  static bool HasEdge(const Variable& x) {
    const absl::StatusOr<autograd::Edge> edge = x.GradientEdge();
    return edge.ok() && edge->defined();
  }

  bool has_[2];
  SavedVariable factors_[2];
};

// Returns `value` as the result of an operation on `inputs`, with a node if autograd records it.
absl::StatusOr<Variable> Recorded(Tensor value, const std::function<std::shared_ptr<Node>()>& make_node,
                                  absl::Span<const Variable> inputs) {
  bool requires_grad = false;
  for (const Variable& input : inputs) requires_grad = requires_grad || input.requires_grad();
  Variable result(std::move(value));
  const bool differentiable = IsFloatingPoint(result.dtype()) || IsComplex(result.dtype());
  if (!requires_grad || !GradMode::enabled() || !differentiable) return result;
  std::shared_ptr<Node> node = make_node();
  COTAN_RETURN_IF_ERROR(node->AddEdgesTo(inputs));
  result.SetHistory(std::move(node));
  return result;
}

// Applies one view step with LibTorch's operations.
struct Viewer {
  const at::Tensor& x;

  static std::vector<int64_t> Numbers(const SymIntVector& values) {
    std::vector<int64_t> numbers;
    for (const SymInt& value : values) numbers.push_back(value.constant());
    return numbers;
  }

  at::Tensor operator()(const view::View& step) const { return x.view(Numbers(step.sizes)); }
  at::Tensor operator()(const view::Permute& step) const {
    return x.permute(std::vector<int64_t>(step.dims.begin(), step.dims.end()));
  }
  at::Tensor operator()(const view::Expand& step) const { return x.expand(Numbers(step.sizes)); }
  at::Tensor operator()(const view::Slice& step) const {
    return x.slice(step.dim, step.start.constant(), step.end.constant(), step.step.constant());
  }
  at::Tensor operator()(const view::Select& step) const { return x.select(step.dim, step.index.constant()); }
  at::Tensor operator()(const view::AsStrided& step) const {
    return x.as_strided(Numbers(step.sizes), Numbers(step.strides), step.offset.constant());
  }
  at::Tensor operator()(const view::Squeeze& step) const {
    return x.squeeze(std::vector<int64_t>(step.dims.begin(), step.dims.end()));
  }
  at::Tensor operator()(const view::Unsqueeze& step) const { return x.unsqueeze(step.dim); }
  at::Tensor operator()(const view::Diagonal& step) const { return x.diagonal(step.offset, step.dim1, step.dim2); }
  at::Tensor operator()(const view::Unfold& step) const { return x.unfold(step.dim, step.size, step.step); }
  at::Tensor operator()(const view::DTypeView& step) const { return x.view(ToTheirs(step.dtype)); }
  at::Tensor operator()(view::ViewAsReal) const { return at::view_as_real(x); }
  at::Tensor operator()(view::ViewAsComplex) const { return at::view_as_complex(x); }
  at::Tensor operator()(view::Detach) const { return x.detach(); }
  at::Tensor operator()(view::Conjugate) const { return x.conj(); }
  at::Tensor operator()(view::Negate) const { return at::_neg_view(x); }
  at::Tensor operator()(view::Alias) const { return at::alias(x); }
};

// Runs both sides; returns whether both refused, or the difference if only one did.
DifferentialPair::Outcome Both(const std::function<absl::Status()>& ours, const std::function<void()>& theirs) {
  std::string refusal;
  try {
    theirs();
  } catch (const c10::Error& error) {
    refusal = error.what_without_backtrace();
  }
  if (refusal.find("INTERNAL ASSERT FAILED") != std::string::npos) return {.refused = true, .undecided = true};
  const absl::Status status = ours();
  if (status.ok() && !refusal.empty())
    return {.refused = true, .undecided = false, .difference = "only LibTorch refuses: " + refusal};
  if (!status.ok() && refusal.empty())
    return {.refused = true, .undecided = false, .difference = absl::StrCat("only Cotan refuses: ", status.ToString())};
  return {.refused = !status.ok()};
}

template <typename T>
absl::Status Keep(absl::StatusOr<T> value, T& kept) {
  if (!value.ok()) return value.status();
  kept = *std::move(value);
  return absl::OkStatus();
}

bool SameStrides(const Tensor& ours, const at::Tensor& theirs, bool of_size_1) {
  for (int64_t d = 0; d < theirs.dim(); ++d) {
    if (!of_size_1 && theirs.size(d) == 1) continue;
    if (ours.layout().strides[static_cast<size_t>(d)] != theirs.stride(d)) return false;
  }
  return true;
}

// `in_full`: also the offset, and strides of dimensions of size 1.
std::string TensorDifference(const Tensor& ours, const at::Tensor& theirs, bool in_full) {
  if (!ours.defined() || !theirs.defined()) return ours.defined() == theirs.defined() ? "" : "one is undefined";
  if (ToTheirs(ours.dtype()) != theirs.scalar_type()) return "dtype";
  if (Refer(ours.sizes()) != theirs.sizes()) return absl::StrCat("sizes, ours ", ours.ToString());
  if (!SameStrides(ours, theirs, in_full)) {
    return absl::StrCat("strides, ours ", ToString(ours.layout()), ", theirs {", absl::StrJoin(theirs.strides(), ","),
                        "}");
  }
  if (in_full && ours.layout().offset != theirs.storage_offset()) return "offset";
  const at::Tensor wrapped = Wrap(ours);
  if (at::allclose(wrapped.to(at::kComplexDouble), theirs.detach().to(at::kComplexDouble), 1e-5, 1e-5,
                   /*equal_nan=*/true)) {
    return "";
  }
  std::ostringstream text;
  text << "elements, ours\n" << wrapped << "\ntheirs\n" << theirs.detach();
  return text.str();
}

}  // namespace

DifferentialPair::DifferentialPair(Variable ours, at::Tensor theirs)
    : ours_(std::move(ours)), theirs_(std::move(theirs)), version_ahead_(theirs_._version() - ours_.version()) {}

DifferentialPair::DifferentialPair(const at::Tensor& tensor, bool requires_grad)
    : DifferentialPair(Variable(Copied(tensor)), tensor.detach().contiguous().clone()) {
  if (!requires_grad) return;
  theirs_.requires_grad_(true);
  (void)ours_.RequiresGrad(true);
}

DifferentialPair::Outcome DifferentialPair::View(const ViewStep& step, DifferentialPair& result) const {
  Variable ours;
  at::Tensor theirs;
  const Outcome outcome =
      Both([&] { return Keep(ours_.View({step}), ours); }, [&] { theirs = std::visit(Viewer{theirs_}, step); });
  if (!outcome.refused) result = DifferentialPair(ours, theirs);
  return outcome;
}

DifferentialPair::Outcome DifferentialPair::Rows(std::vector<DifferentialPair>& results) const {
  std::vector<ViewStep> steps;
  for (int64_t i = 0; i < ours_.sizes()[0]; ++i) steps.push_back(view::Select{.dim = 0, .index = i});
  std::vector<Variable> ours;
  std::vector<at::Tensor> theirs;
  const Outcome outcome = Both([&] { return Keep(ours_.MultiView(steps), ours); }, [&] { theirs = theirs_.unbind(0); });
  results.clear();
  for (size_t i = 0; i < ours.size() && !outcome.refused; ++i) results.push_back(DifferentialPair(ours[i], theirs[i]));
  return outcome;
}

DifferentialPair::Outcome DifferentialPair::Times(double factor, DifferentialPair& result) const {
  Variable ours;
  at::Tensor theirs;
  const auto compute = [&] {
    Tensor value = Compute([&] { return Wrap(ours_.tensor()) * factor; });
    return Keep(Recorded(std::move(value), [&] { return std::make_shared<ScaleNode>(factor); }, {ours_}), ours);
  };
  const Outcome outcome = Both(compute, [&] { theirs = (theirs_ * factor).contiguous(); });
  if (!outcome.refused) result = DifferentialPair(ours, theirs);
  return outcome;
}

DifferentialPair::Outcome DifferentialPair::Times(const DifferentialPair& other, DifferentialPair& result) const {
  Variable ours;
  at::Tensor theirs;
  const auto compute = [&] {
    Tensor value = Compute([&] { return Wrap(ours_.tensor()) * Wrap(other.ours_.tensor()); });
    return Keep(Recorded(std::move(value), [&] { return std::make_shared<ProductNode>(ours_, other.ours_); },
                         {ours_, other.ours_}),
                ours);
  };
  const Outcome outcome = Both(compute, [&] { theirs = (theirs_ * other.theirs_).contiguous(); });
  if (!outcome.refused) result = DifferentialPair(ours, theirs);
  return outcome;
}

DifferentialPair::Outcome DifferentialPair::Plus(const DifferentialPair& other, DifferentialPair& result) const {
  Variable ours;
  at::Tensor theirs;
  const auto compute = [&] {
    Tensor value = Compute([&] { return Wrap(ours_.tensor()) + Wrap(other.ours_.tensor()); });
    return Keep(Recorded(std::move(value), [] { return std::make_shared<SumNode>(); }, {ours_, other.ours_}), ours);
  };
  const Outcome outcome = Both(compute, [&] { theirs = (theirs_ + other.theirs_).contiguous(); });
  if (!outcome.refused) result = DifferentialPair(ours, theirs);
  return outcome;
}

DifferentialPair::Outcome DifferentialPair::Copy(const DifferentialPair& source) {
  return Both([&] { return ours_.CopyInPlace(source.ours_, Ops()); }, [&] { theirs_.copy_(source.theirs_); });
}

DifferentialPair::Outcome DifferentialPair::TimesInPlace(double factor) {
  const auto ours = [&]() -> absl::Status {
    const bool recorded = GradMode::enabled() && ours_.requires_grad();
    COTAN_RETURN_IF_ERROR(ours_.CheckInPlace(recorded));
    auto node = std::make_shared<ScaleNode>(factor);
    if (recorded) COTAN_RETURN_IF_ERROR(node->AddEdgesTo({ours_}));
    try {
      at::NoGradGuard no_grad;
      Wrap(ours_.tensor()).mul_(factor);
    } catch (const c10::Error& error) {
      return absl::InvalidArgumentError(error.what_without_backtrace());
    }
    ours_.BumpVersion();
    return recorded ? ours_.RebaseHistory(std::move(node)) : absl::OkStatus();
  };
  return Both(ours, [&] { theirs_.mul_(factor); });
}

DifferentialPair::Outcome DifferentialPair::AsStridedInPlace(const StridedLayout& layout) {
  return Both([&] { return ours_.AsStridedInPlace(layout); },
              [&] { theirs_.as_strided_(Refer(layout.sizes), Refer(layout.strides), layout.offset); });
}

DifferentialPair::Outcome DifferentialPair::SetStorage(const DifferentialPair& source) {
  const auto ours = [&] {
    GradModeGuard off(false);
    return ours_.SetStorage(source.ours_);
  };
  const auto theirs = [&] {
    at::NoGradGuard no_grad;
    theirs_.set_(source.theirs_);
  };
  return Both(ours, theirs);
}

DifferentialPair::Outcome DifferentialPair::RequiresGrad(bool requires_grad) {
  return Both([&] { return ours_.RequiresGrad(requires_grad); }, [&] { theirs_.requires_grad_(requires_grad); });
}

DifferentialPair::Outcome DifferentialPair::DetachInPlace() {
  return Both([&] { return ours_.DetachInPlace(); }, [&] { theirs_.detach_(); });
}

DifferentialPair::Outcome DifferentialPair::RetainGrad() {
  return Both([&] { return ours_.RetainGrad(); }, [&] { theirs_.retain_grad(); });
}

DifferentialPair::Outcome DifferentialPair::CompareHistory() const {
  bool ours = false;
  bool theirs = false;
  const auto ask = [&]() -> absl::Status {
    COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, ours_.grad_fn());
    ours = node != nullptr;
    return absl::OkStatus();
  };
  Outcome outcome = Both(ask, [&] { theirs = theirs_.grad_fn() != nullptr; });
  if (ours != theirs && outcome.difference.empty()) outcome.difference = "only one has a history";
  return outcome;
}

DifferentialPair::Outcome DifferentialPair::Backward(const std::vector<DifferentialPair>& roots, uint64_t seed,
                                                     bool retain_graph) {
  std::vector<Variable> ours;
  std::vector<at::Tensor> theirs;
  std::vector<Tensor> our_gradients;
  std::vector<at::Tensor> their_gradients;
  at::manual_seed(seed);
  for (const DifferentialPair& root : roots) {
    ours.push_back(root.ours_);
    theirs.push_back(root.theirs_);
    const at::Tensor gradient = at::randint(-3, 4, root.theirs_.sizes()).to(root.theirs_.scalar_type());
    their_gradients.push_back(gradient);
    our_gradients.push_back(Copied(gradient));
  }
  return Both([&] { return autograd::Backward(ours, our_gradients, Ops(), {.retain_graph = retain_graph}); },
              [&] { torch::autograd::backward(theirs, their_gradients, retain_graph); });
}

std::string DifferentialPair::Difference() const {
  std::string difference = TensorDifference(ours_.tensor(), theirs_, /*in_full=*/true);
  if (!difference.empty()) return difference;
  const auto differ = [](absl::string_view what, int64_t ours, int64_t theirs) {
    return ours == theirs ? "" : absl::StrCat(what, ", ours ", ours, ", theirs ", theirs);
  };
  for (const std::string& flag :
       {differ("requires_grad", ours_.requires_grad(), theirs_.requires_grad()),
        differ("is_leaf", ours_.is_leaf(), theirs_.is_leaf()), differ("is_view", ours_.is_view(), theirs_.is_view()),
        differ("version", ours_.version(), theirs_._version() - version_ahead_)}) {
    if (!flag.empty()) return flag;
  }
  const Tensor gradient = ours_.grad().defined() ? ours_.grad().tensor() : Tensor();
  const at::Tensor& their_gradient = theirs_.unsafeGetTensorImpl()->grad();  // Tensor::grad() warns
  difference = TensorDifference(gradient, their_gradient, /*in_full=*/false);
  return difference.empty() ? "" : "gradient: " + difference;
}

}  // namespace cotan::testing
