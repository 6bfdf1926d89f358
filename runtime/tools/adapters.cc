// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/adapters.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "runtime/execution/program.h"
#include "runtime/session/safetensors.h"
#include "runtime/tensor/scalar.h"
#include "runtime/tensor/tensor.h"
#include "runtime/tools/json.h"

namespace cotan::tools {
namespace {

using serialization::State;

constexpr absl::string_view kDown = ".lora_A.weight";
constexpr absl::string_view kUp = ".lora_B.weight";
constexpr absl::string_view kScaling = ".lora_scaling";

// A file of named tensors, which it owns.
class TensorFile {
 public:
  void Add(std::string name, Tensor tensor) { tensors_.emplace_back(std::move(name), std::move(tensor)); }

  absl::Status Save(const std::string& path) const {
    SafetensorsFile file;
    file.metadata = {{"format", "pt"}};
    for (const auto& [name, tensor] : tensors_) {
      const absl::string_view bytes(static_cast<const char*>(tensor.address()), tensor.storage()->bytes());
      file.tensors.push_back({name, tensor.dtype(), tensor.layout().sizes, bytes});
    }
    // Tensors with wide elements come first, so that each tensor is aligned in the file.
    std::stable_sort(
        file.tensors.begin(), file.tensors.end(),
        [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return ByteSize(a.dtype) > ByteSize(b.dtype); });
    COTAN_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(file));
    std::vector<absl::string_view> pieces = {header};
    for (const SafetensorsEntry& entry : file.tensors) pieces.push_back(entry.bytes);
    return WriteFileAtomically(path, pieces);
  }

 private:
  std::vector<std::pair<std::string, Tensor>> tensors_;
};

// A matrix of any floating point dtype as numbers, row-major.
struct Matrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values;
};

absl::StatusOr<Matrix> ReadMatrix(const Tensor& tensor) {
  Matrix matrix = {tensor.layout().sizes[0], tensor.layout().sizes[1], {}};
  const size_t width = ByteSize(tensor.dtype());
  const auto* bytes = static_cast<const char*>(tensor.address());
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    COTAN_ASSIGN_OR_RETURN(const double value,
                           DecodeScalar({bytes + static_cast<size_t>(i) * width, width}, tensor.dtype()));
    matrix.values.push_back(value);
  }
  return matrix;
}

// Adds scaling * up * down to a weight in place.
absl::Status Merge(const Matrix& up, const Matrix& down, double scaling, Tensor& weight) {
  COTAN_ASSIGN_OR_RETURN(const Matrix old, ReadMatrix(weight));
  const size_t width = ByteSize(weight.dtype());
  auto* bytes = static_cast<char*>(weight.address());
  std::vector<double> row(static_cast<size_t>(old.columns));
  for (int64_t i = 0; i < old.rows; ++i) {
    std::fill(row.begin(), row.end(), 0);
    for (int64_t r = 0; r < down.rows; ++r) {
      const double factor = up.values[static_cast<size_t>(i * up.columns + r)];
      const double* const terms = &down.values[static_cast<size_t>(r * down.columns)];
      for (size_t j = 0; j < row.size(); ++j) row[j] += factor * terms[j];
    }
    for (size_t j = 0; j < row.size(); ++j) {
      const size_t k = static_cast<size_t>(i * old.columns) + j;
      COTAN_ASSIGN_OR_RETURN(const std::string encoded, EncodeScalar(old.values[k] + scaling * row[j], weight.dtype()));
      std::memcpy(bytes + k * width, encoded.data(), width);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> MergedWeight(const Session& session, const AdapterStates& adapter) {
  COTAN_ASSIGN_OR_RETURN(Tensor weight, session.State(adapter.weight));
  if (!IsFloatingPoint(weight.dtype())) {
    return absl::FailedPreconditionError(absl::StrCat(
        "'", adapter.weight, "' is quantized: export the adapters, and merge them into the original model"));
  }
  COTAN_ASSIGN_OR_RETURN(const Tensor down, session.State(adapter.down));
  COTAN_ASSIGN_OR_RETURN(const Tensor up, session.State(adapter.up));
  COTAN_ASSIGN_OR_RETURN(const Tensor scaling, session.State(adapter.scaling));
  COTAN_ASSIGN_OR_RETURN(const Matrix down_matrix, ReadMatrix(down));
  COTAN_ASSIGN_OR_RETURN(const Matrix up_matrix, ReadMatrix(up));
  COTAN_ASSIGN_OR_RETURN(
      const double factor,
      DecodeScalar({static_cast<const char*>(scaling.address()), ByteSize(scaling.dtype())}, scaling.dtype()));
  COTAN_RETURN_IF_ERROR(Merge(up_matrix, down_matrix, factor, weight));
  return weight;
}

absl::StatusOr<std::vector<AdapterStates>> RequireAdapters(const Session& session) {
  COTAN_ASSIGN_OR_RETURN(std::vector<AdapterStates> adapters, FindAdapters(session.program()));
  if (!adapters.empty()) return adapters;
  return absl::NotFoundError("the program has no adapters: compile it with --lora='*.q_proj,*.v_proj:r=8,alpha=16'");
}

// Returns names as a list in JSON, or "null" if there are none.
std::string JsonList(const std::vector<std::string>& names) {
  if (names.empty()) return "null";
  const auto append = [](std::string* text, const std::string& name) { absl::StrAppend(text, JsonString(name)); };
  return absl::StrCat("[", absl::StrJoin(names, ", ", append), "]");
}

// Returns the text of adapter_config.json, the fields of PEFT's LoraConfig.
absl::StatusOr<std::string> ConfigText(const Session& session, const std::vector<AdapterStates>& adapters,
                                       const std::vector<std::string>& trained) {
  COTAN_ASSIGN_OR_RETURN(const Tensor down, session.State(adapters[0].down));
  COTAN_ASSIGN_OR_RETURN(const Tensor scaling, session.State(adapters[0].scaling));
  COTAN_ASSIGN_OR_RETURN(const std::vector<float> factor, scaling.ToVector<float>());
  std::vector<std::string> layers;
  for (const AdapterStates& adapter : adapters) layers.push_back(adapter.layer);
  std::vector<std::string> modules;
  for (const std::string& name : trained) modules.push_back(name.substr(0, name.rfind('.')));
  modules.erase(std::unique(modules.begin(), modules.end()), modules.end());
  const int64_t rank = down.layout().sizes[0];
  return absl::StrCat("{\n  \"peft_type\": \"LORA\",\n  \"r\": ", rank,
                      ",\n  \"lora_alpha\": ", static_cast<double>(factor[0]) * static_cast<double>(rank),
                      ",\n  \"target_modules\": ", JsonList(layers), ",\n  \"modules_to_save\": ", JsonList(modules),
                      ",\n  \"lora_dropout\": 0.0,\n  \"bias\": \"none\",\n  \"fan_in_fan_out\": false,\n"
                      "  \"inference_mode\": true,\n  \"base_model_name_or_path\": null,\n  \"task_type\": null\n}\n");
}

}  // namespace

absl::StatusOr<std::vector<AdapterStates>> FindAdapters(const Program& program) {
  absl::flat_hash_map<std::string, std::string> names;  // of states, by their names and aliases
  for (const State& state : program.artifact().states()) {
    names.emplace(state.name(), state.name());
    for (const std::string& alias : state.aliases()) names.emplace(alias, state.name());
  }
  std::vector<AdapterStates> adapters;
  for (const State& state : program.artifact().states()) {
    if (state.role() != State::PARAMETER || !absl::EndsWith(state.name(), kDown)) continue;
    const std::string layer(absl::StripSuffix(state.name(), kDown));
    AdapterStates adapter = {layer, "", state.name(), absl::StrCat(layer, kUp), absl::StrCat(layer, kScaling)};
    const auto weight = names.find(absl::StrCat(layer, ".weight"));
    if (weight == names.end() || !names.contains(adapter.up) || !names.contains(adapter.scaling)) {
      return absl::InvalidArgumentError(absl::StrCat("the adapter of '", layer, "' lacks one of the states '", layer,
                                                     ".weight', '", adapter.up, "' and '", adapter.scaling, "'"));
    }
    adapter.weight = weight->second;
    adapters.push_back(std::move(adapter));
  }
  return adapters;
}

absl::Status SaveAdapters(const Session& session, const std::string& folder) {
  COTAN_ASSIGN_OR_RETURN(const std::vector<AdapterStates> adapters, RequireAdapters(session));
  absl::flat_hash_set<std::string> of_adapters;
  for (const AdapterStates& adapter : adapters) of_adapters.insert({adapter.down, adapter.up});
  TensorFile file;
  std::vector<std::string> trained;
  for (const State& state : session.program().artifact().states()) {
    if (state.role() != State::PARAMETER || !state.requires_grad()) continue;
    if (!of_adapters.contains(state.name())) trained.push_back(state.name());
    COTAN_ASSIGN_OR_RETURN(Tensor value, session.State(state.name()));
    file.Add(absl::StrCat("base_model.model.", state.name()), std::move(value));
  }
  COTAN_ASSIGN_OR_RETURN(const std::string config, ConfigText(session, adapters, trained));
  COTAN_RETURN_IF_ERROR(file.Save(absl::StrCat(folder, "/adapter_model.safetensors")));
  return WriteFileAtomically(absl::StrCat(folder, "/adapter_config.json"), {config});
}

absl::Status SaveMerged(const Session& session, const std::string& folder) {
  COTAN_ASSIGN_OR_RETURN(const std::vector<AdapterStates> adapters, RequireAdapters(session));
  absl::flat_hash_map<std::string, const AdapterStates*> by_weight;
  absl::flat_hash_set<std::string> of_adapters;
  for (const AdapterStates& adapter : adapters) {
    by_weight[adapter.weight] = &adapter;
    of_adapters.insert({adapter.down, adapter.up, adapter.scaling});
  }
  TensorFile file;
  for (const State& state : session.program().artifact().states()) {
    const bool is_buffer = state.role() == State::BUFFER && state.persistent();
    if ((state.role() != State::PARAMETER && !is_buffer) || of_adapters.contains(state.name())) continue;
    const auto adapted = by_weight.find(state.name());
    COTAN_ASSIGN_OR_RETURN(Tensor value, adapted == by_weight.end() ? session.State(state.name())
                                                                    : MergedWeight(session, *adapted->second));
    file.Add(state.name(), std::move(value));
  }
  return file.Save(absl::StrCat(folder, "/model.safetensors"));
}

}  // namespace cotan::tools
