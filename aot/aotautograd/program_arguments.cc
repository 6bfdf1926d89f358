// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/program_arguments.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "aot/capture/inputs.h"
#include "aot/capture/non_leaf.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/tensor_data.h"

namespace cotan::aot {
namespace {

std::vector<int64_t> Constants(const SymIntVector& values) {
  std::vector<int64_t> result;
  for (const SymInt& value : values) result.push_back(value.constant());
  return result;
}

// Implements AddProgramArguments().
class Adder {
 public:
  Adder(const InputBinding& binding, absl::Span<const ModuleState> states, absl::Span<const at::Tensor> examples,
        absl::Span<const std::string> names, Recorder& recorder)
      : binding_(binding), states_(states), examples_(examples), names_(names), recorder_(recorder) {
    const int num_inputs = static_cast<int>(states.size() + examples.size());
    kept_ = binding.KeptInputs(num_inputs);
    unique_of_ = binding.add_dupe_map;
    if (unique_of_.empty()) {
      unique_of_.resize(static_cast<size_t>(num_inputs));
      std::iota(unique_of_.begin(), unique_of_.end(), 0);
    }
  }

  ProgramArguments Run() {
    InstallStateProxies(states_, recorder_);
    for (int b = 0; b < binding_.num_bases(); ++b) AddBase(b);
    std::vector<at::Tensor> unique;  // views of bases are filled in at the end
    std::vector<int> graph_inputs;
    for (size_t u = 0; u < kept_.size(); ++u) {
      const auto* view = binding_.has_bases() ? std::get_if<InputBinding::BaseView>(&Inner(u)) : nullptr;
      unique.push_back(view != nullptr ? at::Tensor() : AddInput(static_cast<size_t>(kept_[u])));
      const size_t argument = view != nullptr ? static_cast<size_t>(view->base) : result_.arguments.size() - 1;
      graph_inputs.push_back(result_.arguments[argument].graph_input);
    }
    for (size_t u = 0; u < kept_.size(); ++u) {
      if (unique[u].defined()) continue;
      const auto& view = std::get<InputBinding::BaseView>(Inner(u));
      unique[u] = IsBase(view, u) ? ArgumentOf(view.base) : MakeView(view, u);
    }
    for (const int u : unique_of_) result_.graph_inputs.push_back(graph_inputs[static_cast<size_t>(u)]);
    for (size_t i = states_.size(); i < unique_of_.size(); ++i) {
      result_.function_inputs.push_back(unique[static_cast<size_t>(unique_of_[i])]);
    }
    return std::move(result_);
  }

 private:
  const InputBinding::InnerInput& Inner(size_t unique) const { return binding_.inner_inputs[unique]; }

  const at::Tensor& ExampleOf(size_t input) const { return examples_[input - states_.size()]; }

  void Add(const at::Tensor& example, bool requires_grad, bool is_leaf, bool is_view, const std::string& name) {
    const int graph_input = static_cast<int>(recorder_.graph().inputs().size());
    const int position = graph_input - static_cast<int>(states_.size());
    ProgramArgument argument;
    argument.graph_input = graph_input;
    argument.primal = recorder_.AddInput(example, InputKind::kUserInput, position, name);
    argument.primal.requires_grad_(requires_grad);
    argument.tensor = is_leaf ? argument.primal : NonLeaf(argument.primal);
    if (is_view) recorder_.autograd_views().AddViewOfCaller(argument.tensor);
    argument.requires_grad = requires_grad;
    argument.example = example;
    result_.arguments.push_back(std::move(argument));
  }

  // Adds the base. Its example is the memory of one of its views, seen with the geometry of the
  // base and copied without the elements before it.
  void AddBase(int index) {
    const InputBinding::Base& base = binding_.bases[static_cast<size_t>(index)];
    at::Tensor example;
    for (size_t u = 0; u < kept_.size() && !example.defined(); ++u) {
      const auto* view = std::get_if<InputBinding::BaseView>(&Inner(u));
      if (view == nullptr || view->base != index) continue;
      const RealScope real;
      const at::NoGradGuard no_grad;
      example = at::empty({0}, at::TensorOptions(ToScalarType(base.geometry.dtype)))
                    .set_(ExampleOf(static_cast<size_t>(kept_[u])).storage(), base.geometry.offset.constant(),
                          Constants(base.geometry.sizes), Constants(base.geometry.strides))
                    .clone();
    }
    Add(example, base.requires_grad, base.is_leaf, /*is_view=*/false, absl::StrCat("base.", index));
  }

  at::Tensor AddInput(size_t input) {
    if (input < states_.size()) {
      const ModuleState& state = states_[input];
      result_.arguments.push_back(
          {static_cast<int>(input), state.tensor, state.tensor, state.requires_grad, at::Tensor()});
      return state.tensor;
    }
    const at::Tensor& example = ExampleOf(input);
    const at::Tensor real = [&] {
      const RealScope scope;
      return example.detach();
    }();
    Add(real, example.requires_grad(), example.is_leaf(), example.is_view(), names_[input - states_.size()]);
    ProgramArgument& argument = result_.arguments.back();
    if (PassesNoGradient(example)) {
      argument.tensor = NoGradView(argument.primal);
      argument.input_without_gradient = static_cast<int>(input);
    }
    return argument.tensor;
  }

  const at::Tensor& ArgumentOf(int base) const { return result_.arguments[static_cast<size_t>(base)].tensor; }

  // Returns whether in autograd all inputs of the base are the input `unique`, views of it, or
  // detached from it.
  bool IsRoot(int base, size_t unique) const {
    const at::Tensor& root = ExampleOf(static_cast<size_t>(kept_[unique]));
    for (size_t u = 0; u < kept_.size(); ++u) {
      const auto* other = std::get_if<InputBinding::BaseView>(&Inner(u));
      if (u == unique || other == nullptr || other->base != base || other->detached) continue;
      const auto input = static_cast<size_t>(kept_[u]);
      if (input < states_.size()) return false;
      const at::Tensor& example = ExampleOf(input);
      if (!example.is_same(root) && !(example.is_view() && example._base().is_same(root))) return false;
    }
    return true;
  }

  // Returns whether the input can be the base itself. An input with a metadata mutation cannot: the
  // base keeps its geometry and grad_fn at entry. Exception: a leaf that requires grad, which has
  // no grad_fn; its gradient has the geometry that the leaf has when it is used.
  bool IsBase(const InputBinding::BaseView& view, size_t unique) const {
    const std::vector<int>& mutated = binding_.aliased_inputs_with_metadata_mutations;
    const auto input = static_cast<size_t>(kept_[unique]);
    const bool is_base = input >= states_.size() && !view.detached && !ExampleOf(input).is_view() &&
                         view.geometry == binding_.bases[static_cast<size_t>(view.base)].geometry &&
                         IsRoot(view.base, unique);
    if (!is_base || (ExampleOf(input).is_leaf() && ExampleOf(input).requires_grad())) return is_base;
    return std::find(mutated.begin(), mutated.end(), static_cast<int>(unique)) == mutated.end();
  }

  // Returns the view of a base with this geometry. Elements of another dtype are made of the base's elements if they
  // are larger, and otherwise the base's elements are divided into such.
  at::Tensor ViewOfBase(const InputBinding::BaseView& view) const {
    const at::Tensor& base = ArgumentOf(view.base);
    const int64_t start = binding_.bases[static_cast<size_t>(view.base)].geometry.offset.constant();
    const at::ScalarType dtype = ToScalarType(view.geometry.dtype);
    std::vector<int64_t> sizes = Constants(view.geometry.sizes);
    std::vector<int64_t> strides = Constants(view.geometry.strides);
    const int64_t offset = view.geometry.offset.constant();
    const auto base_bytes = static_cast<int64_t>(c10::elementSize(base.scalar_type()));
    const auto bytes = static_cast<int64_t>(c10::elementSize(dtype));
    if (bytes == base_bytes) {
      const at::Tensor seen = base.as_strided(sizes, strides, offset - start);
      return dtype == base.scalar_type() ? seen : seen.view(dtype);
    }
    if (bytes < base_bytes) return base.view(dtype).as_strided(sizes, strides, offset - start * (base_bytes / bytes));
    const int64_t ratio = bytes / base_bytes;
    for (int64_t& stride : strides) stride *= ratio;
    sizes.push_back(ratio);
    strides.push_back(1);
    return base.as_strided(sizes, strides, offset * ratio - start).view(dtype).squeeze(-1);
  }

  // Makes the view of a base that stands for an input. Views of the caller have a grad_fn under any
  // grad mode, except those made under no_grad. An input that is not a view is detached, unless
  // other inputs are views of it.
  at::Tensor MakeView(const InputBinding::BaseView& view, size_t unique) {
    const auto input = static_cast<size_t>(kept_[unique]);
    const bool is_given = input >= states_.size();
    const bool made_under_no_grad = view.detached && is_given && ExampleOf(input).requires_grad();
    const c10::AutoGradMode grad_mode(!made_under_no_grad);
    const at::Tensor result = ViewOfBase(view);
    const bool is_apart = is_given && !ExampleOf(input).is_view() && !IsRoot(view.base, unique);
    return (view.detached && !made_under_no_grad) || is_apart ? result.detach() : result;
  }

  const InputBinding& binding_;
  absl::Span<const ModuleState> states_;
  absl::Span<const at::Tensor> examples_;
  absl::Span<const std::string> names_;
  Recorder& recorder_;
  std::vector<int> kept_;       // by unique input: index of the input
  std::vector<int> unique_of_;  // by input: index of the unique input
  ProgramArguments result_;
};

}  // namespace

ProgramArguments AddProgramArguments(const InputBinding& binding, absl::Span<const ModuleState> states,
                                     absl::Span<const at::Tensor> examples, absl::Span<const std::string> names,
                                     Recorder& recorder) {
  return Adder(binding, states, examples, names, recorder).Run();
}

}  // namespace cotan::aot
