// SPDX-License-Identifier: Apache-2.0

#include "testing/models/golden.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "runtime/session/safetensors.h"

namespace cotan::testing {
namespace {

using Json = nlohmann::json;
using Tensors = std::map<std::string, Tensor>;

// From this error on, a loss depends on rounding.
constexpr double kChaos = 0.001;

absl::StatusOr<Tensors> ReadTensors(const std::string& path) {
  COTAN_ASSIGN_OR_RETURN(const MappedFile mapped, MappedFile::Open(path));
  COTAN_ASSIGN_OR_RETURN(const SafetensorsFile file, ParseSafetensors(mapped.bytes()));
  Tensors tensors;
  for (const SafetensorsEntry& entry : file.tensors) {
    COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(entry.dtype, entry.sizes));
    std::memcpy(tensor.address(), entry.bytes.data(), entry.bytes.size());
    tensors.emplace(entry.name, std::move(tensor));
  }
  return tensors;
}

// Returns the tensors whose names begin with `prefix`, by the rest of their names.
Tensors WithPrefix(const Tensors& tensors, absl::string_view prefix) {
  Tensors found;
  for (const auto& [name, tensor] : tensors) {
    absl::string_view rest = name;
    if (absl::ConsumePrefix(&rest, prefix)) found.emplace(std::string(rest), tensor);
  }
  return found;
}

// Rounds up to 1, 2 or 5 times a power of ten.
double RoundedUp(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (value <= digit * power) return digit * power;
  }
  return 10 * power;
}

SgdGolden ReadSgd(const Json& manifest, const std::string& prefix, double lr) {
  SgdGolden sgd;
  sgd.lr = lr;
  sgd.momentum = manifest.at("sgd").at("momentum").get<double>();
  sgd.losses = manifest.at(absl::StrCat(prefix, "losses64")).get<std::vector<double>>();
  const Json& tolerance = manifest.at("tolerance");
  const auto errors = tolerance.at(absl::StrCat(prefix, "sgd_loss_errors")).get<std::vector<double>>();
  double worst = 0;
  for (const double error : errors) {
    if (error > kChaos) break;
    worst = std::max(worst, error);
    ++sgd.num_compared;
  }
  const bool all = sgd.num_compared == static_cast<int>(errors.size());
  sgd.tolerance =
      all ? tolerance.at(absl::StrCat(prefix, "sgd_loss_rtol")).get<double>() : std::max(1e-5, RoundedUp(10 * worst));
  return sgd;
}

absl::StatusOr<Golden> Assemble(const Tensors& tensors, const Json& manifest) {
  Golden golden;
  for (size_t i = 0; i < manifest.at("inputs").size(); ++i) {
    const auto found = tensors.find(absl::StrCat("input.", i));
    if (found == tensors.end()) return absl::InvalidArgumentError(absl::StrCat("there is no input.", i));
    golden.inputs.push_back(found->second);
  }
  golden.has_values = manifest.at("golden").get<bool>();
  if (!golden.has_values) return golden;
  for (const auto& [name, tensor] : WithPrefix(tensors, "output.")) {
    golden.outputs.emplace(absl::StrCat("output.", name), tensor);
  }
  golden.gradients = WithPrefix(tensors, "grad64.");
  if (golden.gradients.empty()) golden.gradients = WithPrefix(tensors, "grad.");
  golden.buffers = WithPrefix(tensors, "buffer_after.");
  golden.sgd.push_back(ReadSgd(manifest, "", manifest.at("sgd").at("lr").get<double>()));
  golden.sgd.push_back(ReadSgd(manifest, "low_lr_", manifest.at("sgd").at("low_lr").get<double>()));
  golden.output_tolerance = manifest.at("tolerance").at("output_rtol").get<double>();
  golden.gradient_tolerance = manifest.at("tolerance").at("grad_rtol").get<double>();
  return golden;
}

}  // namespace

absl::StatusOr<Golden> LoadGolden(const std::string& safetensors, const std::string& manifest) {
  COTAN_ASSIGN_OR_RETURN(const Tensors tensors, ReadTensors(safetensors));
  COTAN_ASSIGN_OR_RETURN(const MappedFile text, MappedFile::Open(manifest));
  try {
    return Assemble(tensors, Json::parse(text.bytes().begin(), text.bytes().end()));
  } catch (const Json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(manifest, ": ", error.what()));
  }
}

absl::StatusOr<Golden> LoadGoldenOf(absl::string_view model) {
  absl::ConsumeSuffix(&model, "_func");
  return LoadGolden(absl::StrCat(model, ".safetensors"), absl::StrCat(model, ".json"));
}

}  // namespace cotan::testing
