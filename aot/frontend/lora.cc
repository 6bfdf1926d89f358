// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/lora.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "aot/capture/proxy_tensor.h"
#include "aot/capture/recorder.h"
#include "aot/frontend/patterns.h"
#include "base/crc32c.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::State;

constexpr absl::string_view kWeight = ".weight";

// Returns the name of the layer among the names of a weight that matches the pattern; "" if there is none.
std::string MatchedLayer(const std::string& pattern, const ModuleState& state) {
  std::vector<std::string> names = state.aliases;
  names.insert(names.begin(), state.name);
  for (const std::string& name : names) {
    const std::string layer(absl::StripSuffix(name, kWeight));
    if (layer != name && Matches(pattern, layer)) return layer;
  }
  return "";
}

struct AdaptedLayer {
  std::string name;
  size_t weight;  // index of a state
};

absl::Status CheckWeight(const std::string& layer, const ModuleState& weight) {
  if (weight.initial.dim() == 2 && weight.initial.is_floating_point()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("lora: '", layer, "' is not a linear layer: its weight is ",
                                                 c10::str(weight.initial.scalar_type(), weight.initial.sizes()),
                                                 ". Use patterns that match linear layers only"));
}

absl::StatusOr<std::vector<AdaptedLayer>> FindLayers(const std::vector<std::string>& patterns,
                                                     const std::vector<ModuleState>& states) {
  std::vector<bool> matched(patterns.size());
  std::vector<AdaptedLayer> layers;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].role != State::PARAMETER) continue;
    std::string name;
    for (size_t p = 0; p < patterns.size(); ++p) {
      const std::string layer = MatchedLayer(patterns[p], states[i]);
      if (layer.empty()) continue;
      matched[p] = true;
      if (name.empty()) name = layer;
    }
    if (name.empty()) continue;
    COTAN_RETURN_IF_ERROR(CheckWeight(name, states[i]));
    layers.push_back({std::move(name), i});
  }
  for (size_t p = 0; p < patterns.size(); ++p) {
    if (matched[p]) continue;
    std::vector<std::string> all;
    for (const ModuleState& state : states) {
      if (state.role == State::PARAMETER && state.initial.dim() == 2 && absl::EndsWith(state.name, kWeight)) {
        all.emplace_back(absl::StripSuffix(state.name, kWeight));
      }
    }
    return absl::InvalidArgumentError(absl::StrCat("lora: the pattern '", patterns[p],
                                                   "' matches no layer with a matrix as its weight; there are ",
                                                   absl::StrJoin(all, ", ")));
  }
  return layers;
}

absl::Status FreezeExcept(const std::vector<std::string>& trained, std::vector<ModuleState>& states) {
  std::vector<bool> matched(trained.size());
  for (ModuleState& state : states) {
    if (state.role != State::PARAMETER) continue;
    bool is_trained = false;
    for (size_t p = 0; p < trained.size(); ++p) {
      if (!Matches(trained[p], state)) continue;
      matched[p] = true;
      is_trained = true;
    }
    if (!is_trained) state.requires_grad = false;
  }
  for (size_t p = 0; p < trained.size(); ++p) {
    if (matched[p]) continue;
    return absl::InvalidArgumentError(absl::StrCat("lora: the pattern '", trained[p], "' matches no parameter"));
  }
  return absl::OkStatus();
}

// Makes the states of adapters and adds them to those of a model.
class StateAdder {
 public:
  explicit StateAdder(std::vector<ModuleState>& states) : states_(states), epoch_(std::make_shared<TraceEpoch>()) {
    epoch_->kind = TraceEpoch::Kind::kConstruction;
    for (const ModuleState& state : states) names_.insert(state.name);
  }

  absl::StatusOr<at::Tensor> Make(const std::string& name, State::Role role, const at::Tensor& initial) {
    if (!names_.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat("lora: '", name, "' exists already"));
    }
    ModuleState& state = (role == State::PARAMETER ? parameters_ : buffers_).emplace_back();
    state.name = name;
    state.role = role;
    state.tensor = WrapFunctional(MakeProxy(initial, kNoValue, epoch_));
    state.initial = initial;
    state.requires_grad = role == State::PARAMETER;
    state.persistent = role == State::PARAMETER;
    return state.tensor;
  }

  // Parameters come before buffers, as they are the first inputs of a traced program.
  void AddAll() {
    const auto first_buffer = std::find_if(states_.begin(), states_.end(),
                                           [](const ModuleState& state) { return state.role != State::PARAMETER; });
    states_.insert(first_buffer, parameters_.begin(), parameters_.end());
    states_.insert(states_.end(), buffers_.begin(), buffers_.end());
  }

 private:
  std::vector<ModuleState>& states_;
  std::vector<ModuleState> parameters_, buffers_;
  absl::flat_hash_set<std::string> names_;
  std::shared_ptr<TraceEpoch> epoch_;
};

}  // namespace

absl::StatusOr<std::vector<LinearAdapter>> AddLoraAdapters(const LoraOptions& options, uint64_t seed,
                                                           std::vector<ModuleState>& states) {
  if (options.rank < 1) return absl::InvalidArgumentError(absl::StrCat("lora: rank ", options.rank, " is below 1"));
  COTAN_ASSIGN_OR_RETURN(const std::vector<AdaptedLayer> layers, FindLayers(options.modules, states));
  COTAN_RETURN_IF_ERROR(FreezeExcept(options.trained, states));
  StateAdder adder(states);
  std::vector<LinearAdapter> adapters;
  for (const AdaptedLayer& layer : layers) {
    const at::Tensor weight = states[layer.weight].initial;
    const double bound = 1 / std::sqrt(static_cast<double>(weight.size(1)));
    // The seed, of which LibTorch uses 32 bits, depends on the layer's name: an archive of the eval mode may have
    // another order of layers.
    at::Generator generator = at::detail::createCPUGenerator(Crc32c(absl::StrCat(layer.name, " ", seed)));
    const at::Tensor down = at::empty({options.rank, weight.size(1)}).uniform_(-bound, bound, generator);
    LinearAdapter& adapter = adapters.emplace_back();
    adapter.layer = layer.name;
    adapter.weight = states[layer.weight].tensor;
    COTAN_ASSIGN_OR_RETURN(adapter.down, adder.Make(absl::StrCat(layer.name, ".lora_A.weight"), State::PARAMETER,
                                                    down.to(weight.scalar_type())));
    COTAN_ASSIGN_OR_RETURN(adapter.up, adder.Make(absl::StrCat(layer.name, ".lora_B.weight"), State::PARAMETER,
                                                  at::zeros({weight.size(0), options.rank}, weight.scalar_type())));
    COTAN_ASSIGN_OR_RETURN(adapter.scaling,
                           adder.Make(absl::StrCat(layer.name, ".lora_scaling"), State::BUFFER,
                                      at::full({}, options.alpha / static_cast<double>(options.rank), at::kFloat)));
  }
  adder.AddAll();
  return adapters;
}

}  // namespace cotan::aot
