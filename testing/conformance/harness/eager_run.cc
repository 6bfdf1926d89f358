// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/eager_run.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/variable.h>

#include <exception>
#include <optional>
#include <set>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "aot/capture/dispatch_keys.h"
#include "aot/capture/recorder.h"
#include "aot/decompositions/rewrites.h"

namespace cotan::conformance {
namespace {

using torch::autograd::Node;

// The seed with which goldens with random ops were recorded.
constexpr uint64_t kCorpusSeed = 1234;

// --- Leaves -------------------------------------------------------------------

void AddLeaf(const at::Tensor& leaf, std::vector<at::Tensor>& leaves) {
  if (absl::c_none_of(leaves, [&](const at::Tensor& known) { return known.is_same(leaf); })) leaves.push_back(leaf);
}

void AddLeavesBehind(Node* node, std::set<Node*>& seen, std::vector<at::Tensor>& leaves) {
  if (node == nullptr || !seen.insert(node).second) return;
  if (auto* accumulate = dynamic_cast<torch::autograd::AccumulateGrad*>(node)) AddLeaf(accumulate->variable, leaves);
  for (const torch::autograd::Edge& edge : node->next_edges()) AddLeavesBehind(edge.function.get(), seen, leaves);
}

// --- Random numbers --------------------------------------------------------------

// During its lifetime random ops draw from a Philox stream, with the formulas of a traced program.
class PhiloxDraws {
 public:
  explicit PhiloxDraws(const PhiloxState& state) : scope_(Prepared(recorder_, state)), keys_(aot::kRewriteKey) {}

 private:
  static aot::Recorder& Prepared(aot::Recorder& recorder, const PhiloxState& state) {
    aot::RegisterRewrites();
    recorder.rng_state = at::tensor({state.seed, state.offset}, at::kLong);
    return recorder;
  }

  aot::Recorder recorder_;
  aot::RecordingScope scope_;
  c10::impl::IncludeDispatchKeyGuard keys_;
};

std::vector<at::Tensor> CallFunction(const ConfCase& c, const std::vector<at::Tensor>& inputs,
                                     const std::optional<PhiloxState>& rng) {
  if (!c.rng) return c.f(inputs);
  if (!rng.has_value()) {
    at::manual_seed(kCorpusSeed);
    return c.f(inputs);
  }
  const PhiloxDraws draws(*rng);
  return c.f(inputs);
}

// A number in a tensor's place: what a table returns for a number.
bool IsNumber(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->is_wrapped_number(); }

// Returns whether `tensor` is a leaf after its grad_fn was read. Nullopt: reading throws, because
// the view must not be written and was.
std::optional<bool> IsLeafWhenAsked(const at::Tensor& tensor) {
  try {
    return !tensor.grad_fn();
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

// --- Facts -------------------------------------------------------------------------

void AddPairs(const EagerRun& run, CallFacts& facts) {
  std::vector<std::pair<std::string, at::Tensor>> named;
  for (size_t i = 0; i < run.in.inputs.size(); ++i) named.emplace_back(absl::StrCat("in", i), run.in.inputs[i]);
  for (size_t i = 0; i < run.outputs.size(); ++i) named.emplace_back(absl::StrCat("out", i), run.outputs[i]);
  for (size_t a = 0; a < named.size(); ++a) {
    for (size_t b = a + 1; b < named.size(); ++b) {
      const at::Tensor& x = named[a].second;
      const at::Tensor& y = named[b].second;
      if (!x.defined() || !y.defined() || IsNumber(x) || IsNumber(y)) continue;
      if (x.is_same(y)) facts.same_object_pairs.emplace_back(named[a].first, named[b].first);
      if (x.storage().unsafeGetStorageImpl() == y.storage().unsafeGetStorageImpl()) {
        facts.storage_alias_pairs.emplace_back(named[a].first, named[b].first);
      }
    }
  }
}

// Returns numbers that depend only on the element's index and the term.
at::Tensor LossWeights(int term, int64_t count, at::ScalarType type) {
  const at::Tensor j = at::arange(count, at::kLong);
  return ((at::remainder(j * 5 + 3 * term, 7) - 3).to(at::kDouble) * 0.5).to(type);
}

}  // namespace

std::vector<at::Tensor> LeavesBehind(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> leaves;
  std::set<Node*> seen;
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.requires_grad()) continue;
    if (tensor.is_leaf()) {
      AddLeaf(tensor, leaves);
    } else {
      AddLeavesBehind(tensor.grad_fn().get(), seen, leaves);
    }
  }
  return leaves;
}

bool MadeWithoutGrad(const at::Tensor& tensor) {
  if (!tensor.is_view()) return false;
  const auto* view = torch::autograd::impl::get_view_autograd_meta(tensor);
  return view->get_creation_meta() == torch::autograd::CreationMeta::NO_GRAD_MODE;
}

CaseInputs MakeInputs(const ConfCase& c) {
  g_roots.clear();
  CaseInputs in;
  in.inputs = c.inputs();
  in.roots_are_in_order = !g_roots.empty();
  in.roots = g_roots.empty() ? LeavesBehind(in.inputs) : g_roots;
  return in;
}

EagerRun RunEager(const ConfCase& c, const std::optional<PhiloxState>& rng) {
  EagerRun run;
  run.in = MakeInputs(c);
  std::vector<uint32_t> versions;
  std::vector<TensorFacts> before;
  for (const at::Tensor& input : run.in.inputs) {
    versions.push_back(static_cast<uint32_t>(input._version()));
    before.push_back(FactsOf(input));
  }
  {
    const at::AutoGradMode mode(c.grad);
    run.outputs = CallFunction(c, run.in.inputs, rng);
    run.facts.grad_mode_after = at::GradMode::is_enabled();
  }
  for (const at::Tensor& output : run.outputs) run.facts.outputs.push_back(FactsOf(output));
  for (size_t i = 0; i < run.in.inputs.size(); ++i) {
    run.facts.inputs_after.push_back(FactsOf(run.in.inputs[i]));
    run.facts.version_bumped.push_back(run.in.inputs[i]._version() != versions[i]);
    const TensorFacts& after = run.facts.inputs_after.back();
    run.input_changed.push_back(std::tie(before[i].sizes, before[i].strides, before[i].offset, before[i].values) !=
                                std::tie(after.sizes, after.strides, after.offset, after.values));
  }
  AddPairs(run, run.facts);
  return run;
}

std::vector<int> LossTerms(const ConfCase& c, const EagerRun& run) {
  std::vector<int> terms;
  const bool all = c.loss_outs == std::vector<int>{-1};
  const int num_outputs = static_cast<int>(run.outputs.size());
  for (int i = 0; i < num_outputs; ++i) {
    const at::Tensor& output = run.outputs[static_cast<size_t>(i)];
    if (!output.defined() || !(all || absl::c_linear_search(c.loss_outs, i))) continue;
    const bool is_root = absl::c_any_of(run.in.roots, [&](const at::Tensor& root) { return root.is_same(output); });
    if (output.requires_grad() && (output.grad_fn() != nullptr || is_root)) terms.push_back(i);
  }
  for (size_t i = 0; c.loss_inputs && i < run.in.inputs.size(); ++i) {
    const at::Tensor& input = run.in.inputs[i];
    if (input.requires_grad() && !input.is_leaf()) terms.push_back(num_outputs + static_cast<int>(i));
  }
  return terms;
}

const at::Tensor& TermOf(const EagerRun& run, int term) {
  const size_t i = static_cast<size_t>(term);
  return i < run.outputs.size() ? run.outputs[i] : run.in.inputs[i - run.outputs.size()];
}

at::Tensor TangentOf(const at::Tensor& tensor, int term, const std::string& layout) {
  const bool is_double = c10::toRealValueType(tensor.scalar_type()) == at::kDouble;
  const at::ScalarType real = is_double ? at::kDouble : at::kFloat;
  if (layout == "expanded") return LossWeights(term, 1, real)[0].expand(tensor.sizes());
  at::Tensor tangent;
  if (tensor.is_complex()) {
    std::vector<int64_t> sizes = tensor.sizes().vec();
    sizes.push_back(2);
    tangent = at::view_as_complex(LossWeights(term, 2 * tensor.numel(), real).reshape(sizes));
  } else {
    tangent = LossWeights(term, tensor.numel(), real).reshape(tensor.sizes());
  }
  if (layout == "transposed" && tensor.dim() >= 2) {
    std::vector<int64_t> reversed;
    for (int64_t d = tensor.dim() - 1; d >= 0; --d) reversed.push_back(d);
    return tangent.permute(reversed).contiguous().permute(reversed);
  }
  if (layout == "channels_last" && tensor.dim() == 4) return tangent.contiguous(at::MemoryFormat::ChannelsLast);
  return tangent;
}

GradFacts BackwardEager(const ConfCase& c, const EagerRun& run) {
  GradFacts facts;
  facts.loss_terms = LossTerms(c, run);
  facts.root_grads.resize(run.in.roots.size());
  if (!facts.loss_terms.empty() && !run.in.roots.empty()) {
    std::vector<at::Tensor> terms;
    std::vector<at::Tensor> tangents;
    for (int term : facts.loss_terms) {
      terms.push_back(TermOf(run, term));
      tangents.push_back(TangentOf(terms.back(), term, c.tangent));
    }
    const auto grads = torch::autograd::grad(terms, run.in.roots, tangents, std::nullopt, /*create_graph=*/false,
                                             /*allow_unused=*/true);
    for (size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i].defined()) continue;
      facts.root_grads[i] = {DTypeText(grads[i].scalar_type()), grads[i].sizes().vec(), ValuesOf(grads[i])};
    }
  }
  for (size_t i = 0; c.after_bw && i < run.in.inputs.size(); ++i) {
    facts.inputs_after_backward.push_back(ValuesOf(run.in.inputs[i]));
  }
  return facts;
}

TensorFacts FactsOf(const at::Tensor& tensor) {
  TensorFacts facts;
  facts.is_none = !tensor.defined();
  if (facts.is_none) return facts;
  if (IsNumber(tensor)) {
    facts.number = tensor.item().toDouble();
    return facts;
  }
  facts.dtype = DTypeText(tensor.scalar_type());
  facts.sizes = tensor.sizes().vec();
  facts.strides = tensor.strides().vec();
  facts.offset = tensor.storage_offset();
  facts.requires_grad = tensor.requires_grad();
  facts.is_leaf = tensor.is_leaf();
  facts.is_leaf_when_asked = IsLeafWhenAsked(tensor);
  facts.is_view = tensor.is_view();
  facts.values = ValuesOf(tensor);
  return facts;
}

std::vector<double> ValuesOf(const at::Tensor& tensor) {
  at::Tensor plain = tensor.detach();
  if (plain.is_complex()) plain = at::view_as_real(plain.resolve_conj());
  plain = plain.resolve_neg().to(at::kDouble).reshape({-1}).contiguous();
  const double* values = plain.const_data_ptr<double>();
  return std::vector<double>(values, values + plain.numel());
}

std::string DTypeText(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return "float32";
    case at::kDouble:
      return "float64";
    case at::kHalf:
      return "float16";
    case at::kBFloat16:
      return "bfloat16";
    case at::kLong:
      return "int64";
    case at::kInt:
      return "int32";
    case at::kShort:
      return "int16";
    case at::kChar:
      return "int8";
    case at::kByte:
      return "uint8";
    case at::kBool:
      return "bool";
    case at::kComplexFloat:
      return "complex64";
    default:
      return "other";
  }
}

}  // namespace cotan::conformance
