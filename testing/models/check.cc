// SPDX-License-Identifier: Apache-2.0

#include "testing/models/check.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "aot/capture/tensor_data.h"
#include "aot/compile.h"
#include "aot/frontend/pt2/model.h"
#include "base/status_macros.h"
#include "runtime/execution/program.h"
#include "testing/models/golden.h"

namespace cotan::testing {
namespace {

using Clock = std::chrono::steady_clock;

at::Tensor ToTorch(const Tensor& tensor) {
  const auto bytes = static_cast<size_t>(tensor.num_elements()) * ByteSize(tensor.dtype());
  return aot::FromTensorData({tensor.dtype(), DimVector(tensor.sizes().begin(), tensor.sizes().end()),
                              std::string(static_cast<const char*>(tensor.address()), bytes)});
}

// Compiles the model of an archive with SGD, as artifacts for CheckProgram() have to be.
absl::StatusOr<std::shared_ptr<const Program>> Compile(const std::string& path, const Golden& golden,
                                                       const std::string& scratch_folder, ModelReport& report) {
  const Clock::time_point start = Clock::now();
  COTAN_ASSIGN_OR_RETURN(const aot::pt2::Model model, aot::pt2::Model::Load(path));
  std::vector<at::Tensor> examples;
  for (const Tensor& input : golden.inputs) examples.push_back(ToTorch(input));
  aot::CompileOptions options;
  options.loss.output = 0;
  options.optimizer.emplace();
  const double momentum = golden.sgd.empty() ? 0.9 : golden.sgd[0].momentum;
  options.optimizer->options = aot::SgdOptions{.lr = 0.05, .momentum = momentum};
  options.debug.store_references = false;
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel compiled, aot::CompilePt2(model, examples, options));
  report.compile_seconds = std::chrono::duration<double>(Clock::now() - start).count();
  report.artifact_bytes = static_cast<int64_t>(compiled.bytes().size());

  const std::string artifact = absl::StrCat(scratch_folder, "/", report.name, ".cotan");
  COTAN_RETURN_IF_ERROR(compiled.Save(artifact));
  absl::StatusOr<std::shared_ptr<const Program>> program = Program::Load(artifact);
  std::error_code ignored;
  std::filesystem::remove(artifact, ignored);
  return program;
}

absl::Status Check(const std::string& path, const CheckOptions& options, ModelReport& report) {
  COTAN_ASSIGN_OR_RETURN(const Golden golden,
                         LoadGoldenOf(path.substr(0, path.size() - absl::string_view(".pt2").size())));
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Compile(path, golden, options.scratch_folder, report));
  return CheckProgram(std::move(program), golden, {.threads = options.threads, .device = options.device}, report);
}

}  // namespace

absl::StatusOr<std::vector<std::string>> FindModels(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (entry.path().extension() == ".pt2") found.push_back(entry.path().string());
  }
  if (error) return absl::NotFoundError(absl::StrCat(folder, ": ", error.message()));
  if (found.empty()) return absl::NotFoundError(absl::StrCat(folder, " holds no .pt2 files"));
  std::sort(found.begin(), found.end());
  return found;
}

ModelReport CheckModel(const std::string& path, const CheckOptions& options) {
  ModelReport report;
  report.name = std::filesystem::path(path).stem().string();
  report.status = Check(path, options, report);
  return report;
}

}  // namespace cotan::testing
