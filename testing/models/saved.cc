// SPDX-License-Identifier: Apache-2.0

#include "testing/models/saved.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "aot/compile.h"
#include "aot/frontend/pt2/model.h"
#include "aot/memory/fit_memory.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "base/sym_int.h"
#include "kernels/cpu/register_cpu.h"
#include "serialization/container/container.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::testing {
namespace {

using Json = nlohmann::json;

// Returns the least count of the cuts `names` of a model; none if PyTorch could not trace it.
std::optional<int64_t> Least(const Json& model, std::initializer_list<const char*> names) {
  std::optional<int64_t> least;
  for (const char* name : names) {
    for (const char* count : {"tensors", "storages"}) {
      if (!model.at(name).contains(count)) continue;
      const auto bytes = model.at(name).at(count).get<int64_t>();
      least = std::min(least.value_or(bytes), bytes);
    }
  }
  return least;
}

// Returns the sizes of the dynamic dimensions in the examples.
absl::StatusOr<DimVector> SymbolsOf(const serialization::Method& forward, const std::vector<at::Tensor>& examples) {
  DimVector symbols;
  for (size_t i = 0; i < examples.size(); ++i) {
    const serialization::Value& input = forward.values(static_cast<int>(forward.inputs(static_cast<int>(i))));
    for (int d = 0; d < input.type().sizes_size(); ++d) {
      COTAN_ASSIGN_OR_RETURN(const SymInt size, SymInt::Parse(input.type().sizes(d)));
      if (size.kind() != SymInt::Kind::kSymbol) continue;
      symbols.resize(std::max<size_t>(symbols.size(), static_cast<size_t>(size.symbol()) + 1), 1);
      symbols[static_cast<size_t>(size.symbol())] = examples[i].size(d);
    }
  }
  return symbols;
}

// Returns the bytes of the saved values of a forward.
absl::StatusOr<int64_t> SavedBytesOf(const serialization::Method& forward, const DimVector& symbols) {
  int64_t saved = 0;
  for (int i = forward.outputs_size() - static_cast<int>(forward.num_saved()); i < forward.outputs_size(); ++i) {
    const serialization::TensorType& type = forward.values(static_cast<int>(forward.outputs(i))).type();
    auto bytes = static_cast<int64_t>(ByteSize(ToDType(type.dtype())));
    for (const std::string& text : type.sizes()) {
      COTAN_ASSIGN_OR_RETURN(const SymInt size, SymInt::Parse(text));
      COTAN_ASSIGN_OR_RETURN(const int64_t value, size.Evaluate(symbols));
      bytes *= value;
    }
    saved += bytes;
  }
  return saved;
}

}  // namespace

absl::StatusOr<PairBytes> MeasurePair(const std::string& path, const aot::PartitionOptions& options) {
  COTAN_ASSIGN_OR_RETURN(const aot::pt2::Model model, aot::pt2::Model::Load(path));
  COTAN_ASSIGN_OR_RETURN(const std::vector<at::Tensor> examples, model.ExampleInputs());
  aot::CompileOptions compile;
  compile.methods = {.train_step = false, .forward_backward = true, .eval = false};
  compile.partitioner = options.partitioner;
  compile.activation_memory_budget = options.activation_memory_budget;
  compile.save_policy = options.save_policy;
  compile.memory_target = aot::MemoryTarget{.kernels = &CpuKernels(), .threads = 1};
  compile.debug.store_references = false;
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel compiled, aot::CompilePt2(model, examples, compile));
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::Parse(compiled.bytes()));
  COTAN_ASSIGN_OR_RETURN(const std::vector<aot::MethodMemory> memory,
                         aot::MeasureMemory(file.artifact(), *compile.memory_target));
  PairBytes bytes;
  for (const serialization::Method& method : file.artifact().methods()) {
    if (method.num_saved() == 0) continue;
    COTAN_ASSIGN_OR_RETURN(const DimVector symbols, SymbolsOf(method, examples));
    COTAN_ASSIGN_OR_RETURN(bytes.saved, SavedBytesOf(method, symbols));
  }
  for (const aot::MethodMemory& method : memory) bytes.peak = std::max(bytes.peak, method.after);
  return bytes;
}

absl::StatusOr<References> ReadReferenceBytes(const std::string& path) {
  std::ifstream in(path);
  if (!in) return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  References references;
  try {
    const Json file = Json::parse(in);
    for (const auto& [name, model] : file.at("models").items()) {
      references[name] = {.min_cut = Least(model, {"min_cut", "min_cut_inductor"}),
                          .default_partition = Least(model, {"default", "default_inductor"})};
    }
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path, " was not written by record_saved_bytes.py: ", error.what()));
  }
  return references;
}

absl::StatusOr<ReferenceBytes> ReferenceOf(const References& references, const std::string& name) {
  for (const std::string& each : {name, std::string(absl::StripSuffix(name, "_func"))}) {
    const auto found = references.find(each);
    if (found != references.end() && found->second.min_cut.has_value()) return found->second;
  }
  return absl::NotFoundError(absl::StrCat("there are no bytes of PyTorch for '", name, "'; run record_saved_bytes.py"));
}

}  // namespace cotan::testing
