// SPDX-License-Identifier: Apache-2.0

#include "testing/autograd/world.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <map>
#include <utility>
#include <variant>

#include "aot/compile.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/hooks.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

template <typename T>
std::vector<int> AddAll(std::vector<T>& values, std::vector<T> added) {
  std::vector<int> handles;
  for (T& value : added) {
    handles.push_back(static_cast<int>(values.size()));
    values.push_back(std::move(value));
  }
  return handles;
}

// --- LibTorch -------------------------------------------------------------------

struct UserFunction : torch::autograd::Function<UserFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x, int64_t forward,
                            int64_t backward) {
    context->saved_data["backward"] = backward;
    return (*reinterpret_cast<const World::GradientHook*>(forward))(x);
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& gradients) {
    const int64_t backward = context->saved_data["backward"].toInt();
    return {(*reinterpret_cast<const World::GradientHook*>(backward))(gradients[0]), at::Tensor(), at::Tensor()};
  }
};

struct EagerPreHook final : torch::autograd::FunctionPreHook {
  explicit EagerPreHook(World::ReplacingHook hook_in) : hook(std::move(hook_in)) {}
  Tensors operator()(const Tensors& incoming) override { return hook({}, incoming); }
  World::ReplacingHook hook;
};

struct EagerPostHook final : torch::autograd::FunctionPostHook {
  explicit EagerPostHook(World::ReplacingHook hook_in) : hook(std::move(hook_in)) {}
  Tensors operator()(const Tensors& results, const Tensors& incoming) override { return hook(results, incoming); }
  World::ReplacingHook hook;
};

// LibTorch has one such hook for a leaf.
struct EagerPostAccumulateHooks final : torch::autograd::PostAccumulateGradHook {
  void operator()(const at::Tensor&) override {
    for (const std::function<void()>& hook : hooks) hook();
  }
  std::vector<std::function<void()>> hooks;
};

at::Tensor ViewOfEager(const at::Tensor& x, const ViewStep& step) {
  const auto numbers = [](const SymIntVector& values) {
    std::vector<int64_t> result;
    for (const SymInt& value : values) result.push_back(value.constant());
    return result;
  };
  if (const auto* view = std::get_if<view::View>(&step)) return x.view(numbers(view->sizes));
  if (const auto* expand = std::get_if<view::Expand>(&step)) return x.expand(numbers(expand->sizes));
  if (const auto* select = std::get_if<view::Select>(&step)) return x.select(select->dim, select->index.constant());
  if (const auto* slice = std::get_if<view::Slice>(&step)) {
    return x.slice(slice->dim, slice->start.constant(), slice->end.constant(), slice->step.constant());
  }
  const auto& permute = std::get<view::Permute>(step);
  return x.permute(std::vector<int64_t>(permute.dims.begin(), permute.dims.end()));
}

class EagerWorld final : public World {
 public:
  int Leaf(const at::Tensor& values) override { return AddAll(values_, {values.clone().requires_grad_()})[0]; }
  std::vector<int> Call(const CompiledFunction& function, const std::vector<int>& arguments) override {
    return AddAll(values_, function.function(At(arguments)));
  }
  int View(int value, const ViewStep& step) override { return AddAll(values_, {ViewOfEager(At(value), step)})[0]; }
  void Copy(int to, int from) override { At(to).copy_(At(from)); }
  int Node(const std::string&, int value, const GradientHook& forward, const GradientHook& backward) override {
    kept_.push_back(std::make_unique<GradientHook>(forward));
    const auto forward_address = reinterpret_cast<int64_t>(kept_.back().get());
    kept_.push_back(std::make_unique<GradientHook>(backward));
    const auto backward_address = reinterpret_cast<int64_t>(kept_.back().get());
    return AddAll(values_, {UserFunction::apply(At(value), forward_address, backward_address)})[0];
  }
  void TensorHook(int value, GradientHook hook) override {
    At(value).register_hook([hook](const at::Tensor& gradient) { return hook(gradient); });
  }
  void RetainGrad(int value) override { At(value).retain_grad(); }
  void PreHook(int value, NodeHook hook) override {
    ReplacingPreHook(value, [hook](const Tensors&, const Tensors& incoming) {
      hook({}, incoming);
      return incoming;
    });
  }
  void PostHook(int value, NodeHook hook) override {
    ReplacingPostHook(value, [hook](const Tensors& results, const Tensors& incoming) {
      hook(results, incoming);
      return results;
    });
  }
  void ReplacingPreHook(int value, ReplacingHook hook) override {
    NodeOf(value)->add_pre_hook(std::make_unique<EagerPreHook>(std::move(hook)));
  }
  void ReplacingPostHook(int value, ReplacingHook hook) override {
    NodeOf(value)->add_post_hook(std::make_unique<EagerPostHook>(std::move(hook)));
  }
  void PostAccumulateHook(int leaf, std::function<void()> hook) override {
    EagerPostAccumulateHooks*& hooks = post_accumulate_hooks_[leaf];
    if (hooks == nullptr) {
      auto made = std::make_unique<EagerPostAccumulateHooks>();
      hooks = made.get();
      torch::autograd::impl::set_post_acc_grad_hooks(At(leaf), std::move(made));
    }
    hooks->hooks.push_back(std::move(hook));
  }
  void Backward(const std::vector<int>& roots, bool retain_graph, const std::vector<int>& inputs) override {
    torch::autograd::backward(At(roots), Ones(roots), retain_graph, /*create_graph=*/false, At(inputs));
  }
  void BackwardFrom(const std::vector<int>& roots, const Tensors& gradients) override {
    torch::autograd::backward(At(roots), gradients);
  }
  Tensors Grad(const std::vector<int>& roots, const std::vector<int>& inputs) override {
    return torch::autograd::grad(At(roots), At(inputs), Ones(roots), std::nullopt, false, /*allow_unused=*/true);
  }
  at::Tensor Value(int value) override { return At(value); }
  void SetValue(int value, const at::Tensor& elements) override {
    const at::NoGradGuard no_grad;
    At(value).copy_(elements);
  }
  at::Tensor GradOf(int value) override { return At(value).grad(); }
  void SetGrad(int value, const at::Tensor& gradient) override { At(value).mutable_grad() = gradient; }

 private:
  at::Tensor& At(int value) { return values_[static_cast<size_t>(value)]; }
  Tensors At(const std::vector<int>& handles) {
    Tensors values;
    for (const int handle : handles) values.push_back(At(handle));
    return values;
  }
  Tensors Ones(const std::vector<int>& roots) {
    Tensors ones;
    for (const int root : roots) ones.push_back(at::ones_like(At(root)));
    return ones;
  }
  c10::intrusive_ptr<torch::autograd::Node> NodeOf(int value) {
    if (At(value).grad_fn() != nullptr) return At(value).grad_fn();
    accumulators_.push_back(torch::autograd::impl::grad_accumulator(At(value)));
    return accumulators_.back();
  }

  Tensors values_;
  std::vector<std::unique_ptr<GradientHook>> kept_;
  std::vector<c10::intrusive_ptr<torch::autograd::Node>> accumulators_;
  std::map<int, EagerPostAccumulateHooks*> post_accumulate_hooks_;  // owned by the leaves
};

// --- the runtime ------------------------------------------------------------------

at::Tensor ToTheirs(const Tensor& tensor) { return tensor.defined() ? *ToTorch(tensor) : at::Tensor(); }
Tensor ToOurs(const at::Tensor& tensor) { return tensor.defined() ? *ToCotan(tensor.detach().contiguous()) : Tensor(); }

Tensors ToTheirs(absl::Span<const Tensor> tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(ToTheirs(tensor));
  return result;
}

class CotanWorld final : public World {
 public:
  explicit CotanWorld(bool captured) : captured_(captured) {}

  int Leaf(const at::Tensor& values) override { return AddAll(values_, {*Variable::Leaf(ToOurs(values.clone()))})[0]; }
  std::vector<int> Call(const CompiledFunction& function, const std::vector<int>& arguments) override {
    Loaded& loaded = Load(function);
    auto results = loaded.function.Call(At(arguments));
    EXPECT_TRUE(results.ok()) << results.status();
    std::vector<Variable> variables;
    for (FunctionResult& result : *results) variables.push_back(std::get<Variable>(result));
    return AddAll(values_, std::move(variables));
  }
  int View(int value, const ViewStep& step) override { return AddAll(values_, {*At(value).View({step})})[0]; }
  void Copy(int to, int from) override { EXPECT_TRUE(At(to).CopyInPlace(At(from), Ops()).ok()); }
  int Node(const std::string& name, int value, const GradientHook& forward, const GradientHook& backward) override {
    at::NoGradGuard no_grad;
    const Tensor result = ToOurs(forward(ToTheirs(At(value).tensor())));
    const auto run = [backward](autograd::BackwardContext&,
                                absl::Span<Tensor> incoming) -> absl::StatusOr<autograd::Gradients> {
      at::NoGradGuard no_grad;
      return autograd::Gradients{ToOurs(backward(ToTheirs(incoming[0])))};
    };
    return AddAll(values_, *autograd::ApplyFunction(name, {At(value)}, {result}, run))[0];
  }
  void TensorHook(int value, GradientHook hook) override {
    const auto run = [hook](const Tensor& gradient) -> absl::StatusOr<Tensor> {
      return ToOurs(hook(ToTheirs(gradient)));
    };
    EXPECT_TRUE(At(value).AddHook(run).ok());
  }
  void RetainGrad(int value) override { EXPECT_TRUE(At(value).RetainGrad().ok()); }
  void PreHook(int value, NodeHook hook) override {
    NodeOf(value).MutableHooks().AddPreHook([hook](absl::Span<Tensor> incoming) {
      hook({}, ToTheirs(incoming));
      return absl::OkStatus();
    });
  }
  void PostHook(int value, NodeHook hook) override {
    NodeOf(value).MutableHooks().AddPostHook([hook](autograd::Gradients& results, absl::Span<const Tensor> incoming) {
      hook(ToTheirs(results), ToTheirs(incoming));
      return absl::OkStatus();
    });
  }
  void ReplacingPreHook(int value, ReplacingHook hook) override {
    NodeOf(value).MutableHooks().AddPreHook([hook](absl::Span<Tensor> incoming) {
      const Tensors replaced = hook({}, ToTheirs(incoming));
      for (size_t i = 0; i < incoming.size(); ++i) incoming[i] = ToOurs(replaced[i]);
      return absl::OkStatus();
    });
  }
  void ReplacingPostHook(int value, ReplacingHook hook) override {
    NodeOf(value).MutableHooks().AddPostHook([hook](autograd::Gradients& results, absl::Span<const Tensor> incoming) {
      const Tensors replaced = hook(ToTheirs(results), ToTheirs(incoming));
      for (size_t i = 0; i < results.size(); ++i) results[i] = ToOurs(replaced[i]);
      return absl::OkStatus();
    });
  }
  void PostAccumulateHook(int leaf, std::function<void()> hook) override {
    const auto run = [hook](Variable&) {
      hook();
      return absl::OkStatus();
    };
    EXPECT_TRUE(At(leaf).AddPostAccumulateHook(run).ok());
  }
  void Backward(const std::vector<int>& roots, bool retain_graph, const std::vector<int>& inputs) override {
    const auto scope = MakeScope();
    autograd::BackwardOptions options = {.retain_graph = retain_graph};
    if (!inputs.empty()) options.inputs = At(inputs);
    const absl::Status status = autograd::Backward(At(roots), Ones(roots), Ops(), options);
    EXPECT_TRUE(status.ok()) << status;
  }
  void BackwardFrom(const std::vector<int>& roots, const Tensors& gradients) override {
    const auto scope = MakeScope();
    std::vector<Tensor> ours;
    for (const at::Tensor& gradient : gradients) ours.push_back(ToOurs(gradient.clone()));
    const absl::Status status = autograd::Backward(At(roots), ours, Ops());
    EXPECT_TRUE(status.ok()) << status;
  }
  Tensors Grad(const std::vector<int>& roots, const std::vector<int>& inputs) override {
    const auto scope = MakeScope();
    const auto gradients = autograd::Grad(At(roots), At(inputs), Ones(roots), Ops(), {.allow_unused = true});
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    return gradients.ok() ? ToTheirs(*gradients) : Tensors(inputs.size());
  }
  at::Tensor Value(int value) override { return ToTheirs(At(value).tensor()); }
  void SetValue(int value, const at::Tensor& elements) override {
    const GradModeGuard no_grad(false);
    EXPECT_TRUE(At(value).CopyInPlace(Variable(ToOurs(elements.clone())), Ops()).ok());
  }
  at::Tensor GradOf(int value) override {
    const Variable& grad = At(value).grad();
    return grad.defined() ? ToTheirs(grad.tensor()) : at::Tensor();
  }
  void SetGrad(int value, const at::Tensor& gradient) override {
    if (!gradient.defined()) return At(value).ClearGrad();
    EXPECT_TRUE(At(value).SetGrad(Variable(ToOurs(gradient.clone()))).ok());
  }

 private:
  struct Loaded {
    Session session;
    Function function;
  };

  std::unique_ptr<CompiledAutograd> MakeScope() const {
    return captured_ ? std::make_unique<CompiledAutograd>() : nullptr;
  }
  Loaded& Load(const CompiledFunction& function) {
    std::unique_ptr<Loaded>& loaded = loaded_[&function];
    if (loaded == nullptr) {
      Session session = *Session::Create(*Program::LoadBytes(function.bytes, function.name),
                                         {.kernels = &CpuKernels(), .threads = 1});
      Function called = *Function::Create(session, "forward");
      loaded = std::make_unique<Loaded>(Loaded{std::move(session), std::move(called)});
    }
    return *loaded;
  }
  TensorOps& Ops() { return ops_; }
  Variable& At(int value) { return values_[static_cast<size_t>(value)]; }
  std::vector<Variable> At(const std::vector<int>& handles) {
    std::vector<Variable> values;
    for (const int handle : handles) values.push_back(At(handle));
    return values;
  }
  std::vector<Tensor> Ones(const std::vector<int>& roots) {
    std::vector<Tensor> ones;
    for (const int root : roots) ones.push_back(*Ops().Ones(At(root).dtype(), At(root).sizes()));
    return ones;
  }
  autograd::Node& NodeOf(int value) {
    edges_.push_back(*At(value).GradientEdge());
    return *edges_.back().node;
  }

  const bool captured_;
  TensorOps ops_ = TensorOps(CpuKernels());
  std::map<const CompiledFunction*, std::unique_ptr<Loaded>> loaded_;
  std::vector<Variable> values_;
  std::vector<autograd::Edge> edges_;
};

}  // namespace

CompiledFunction::CompiledFunction(TensorFunction function_in, const Tensors& examples, bool dynamic)
    : function(std::move(function_in)) {
  Tensors leaves;
  aot::CompileOptions options;
  for (size_t i = 0; i < examples.size(); ++i) {
    leaves.push_back(examples[i].clone().requires_grad_());
    if (dynamic && i == 0) options.dynamic_dims.push_back({0, 0, "batch", 2, 200});
  }
  const auto model = aot::CompileFunction(function, leaves, options);
  EXPECT_TRUE(model.ok()) << model.status();
  if (model.ok()) bytes = model->bytes();
}

std::unique_ptr<World> World::Make(Mode mode) {
  if (mode == Mode::kEager) return std::make_unique<EagerWorld>();
  return std::make_unique<CotanWorld>(mode == Mode::kCaptured);
}

}  // namespace cotan::testing
