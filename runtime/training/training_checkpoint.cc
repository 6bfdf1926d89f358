// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/training_checkpoint.h"

#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "runtime/session/checkpoint.h"
#include "runtime/session/safetensors.h"
#include "runtime/session/session_access.h"

namespace cotan::training {
namespace {

constexpr absl::string_view kPrefix = "cotan.training.";
constexpr absl::string_view kAverage = "average.";

// Largest step count that f64 and the arithmetic of epochs hold.
constexpr double kMaxStep = 1e15;

template <typename T>
absl::string_view BytesOf(absl::Span<const T> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

SafetensorsEntry Numbers(absl::string_view name, const std::vector<double>& numbers) {
  return {
      absl::StrCat(kPrefix, name), DType::kFloat64, {static_cast<int64_t>(numbers.size())}, BytesOf<double>(numbers)};
}

absl::StatusOr<std::vector<double>> ParseNumbers(const SafetensorsEntry& entry) {
  if (entry.dtype != DType::kFloat64 || entry.sizes.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", entry.name, "' is not f64 with one dimension"));
  }
  std::vector<double> numbers(static_cast<size_t>(entry.sizes[0]));
  if (!numbers.empty()) std::memcpy(numbers.data(), entry.bytes.data(), entry.bytes.size());
  return numbers;
}

// step, best score, step of the best score, evaluations since then
absl::Status SetProgress(absl::Span<const double> numbers, TrainingCheckpoint& checkpoint) {
  const auto is_count = [](double number, double least) {
    return number >= least && number <= kMaxStep && std::floor(number) == number;
  };
  if (numbers.size() != 4 || !is_count(numbers[0], 0) || !is_count(numbers[2], -1) || !is_count(numbers[3], 0)) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", kPrefix, "progress' does not hold a step and a score"));
  }
  checkpoint.step = static_cast<int64_t>(numbers[0]);
  checkpoint.early_stopping = {numbers[1], static_cast<int64_t>(numbers[2]), static_cast<int64_t>(numbers[3])};
  return absl::OkStatus();
}

absl::Status SetTensor(absl::string_view name, const SafetensorsEntry& entry, TrainingCheckpoint& checkpoint) {
  if (absl::ConsumePrefix(&name, kAverage)) {
    COTAN_ASSIGN_OR_RETURN(Tensor value, Tensor::Empty(entry.dtype, entry.sizes));
    if (!entry.bytes.empty()) std::memcpy(value.address(), entry.bytes.data(), entry.bytes.size());
    checkpoint.averages.emplace_back(name, std::move(value));
    return absl::OkStatus();
  }
  COTAN_ASSIGN_OR_RETURN(std::vector<double> numbers, ParseNumbers(entry));
  if (name == "progress") return SetProgress(numbers, checkpoint);
  if (name == "base_rates") {
    checkpoint.base_rates = std::move(numbers);
    return absl::OkStatus();
  }
  if (name == "losses" || name == "scores") {
    COTAN_ASSIGN_OR_RETURN((name == "losses" ? checkpoint.losses : checkpoint.scores),
                           CurvePoints::FromNumbers(numbers));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("unknown tensor '", entry.name, "'; was a newer version used?"));
}

absl::StatusOr<TrainingCheckpoint> Parse(absl::string_view bytes) {
  COTAN_ASSIGN_OR_RETURN(const SafetensorsFile file, ParseSafetensors(bytes));
  TrainingCheckpoint checkpoint;
  bool has_progress = false;
  for (const SafetensorsEntry& entry : file.tensors) {
    absl::string_view name = entry.name;
    if (!absl::ConsumePrefix(&name, kPrefix)) continue;
    has_progress = has_progress || name == "progress";
    COTAN_RETURN_IF_ERROR(SetTensor(name, entry, checkpoint));
  }
  if (!has_progress) {
    return absl::InvalidArgumentError("the checkpoint holds states only, not the position of a training run");
  }
  for (const auto& [key, value] : file.metadata) {
    absl::string_view name = key;
    if (absl::ConsumePrefix(&name, kPrefix)) checkpoint.options.emplace_back(name, value);
  }
  return checkpoint;
}

}  // namespace

absl::Status SaveTrainingCheckpoint(const Session& session, const TrainingCheckpoint& checkpoint,
                                    const std::string& path) {
  const EarlyStopping::State& best = checkpoint.early_stopping;
  const std::vector<double> progress = {static_cast<double>(checkpoint.step), best.best,
                                        static_cast<double>(best.best_step), static_cast<double>(best.not_improved)};
  const std::vector<double> losses = checkpoint.losses.ToNumbers(), scores = checkpoint.scores.ToNumbers();
  SafetensorsFile additions;
  additions.tensors = {Numbers("progress", progress), Numbers("base_rates", checkpoint.base_rates),
                       Numbers("losses", losses), Numbers("scores", scores)};
  for (const auto& [name, value] : checkpoint.averages) {
    const absl::string_view bytes(static_cast<const char*>(value.address()),
                                  static_cast<size_t>(value.num_elements()) * ByteSize(value.dtype()));
    additions.tensors.push_back({absl::StrCat(kPrefix, kAverage, name), value.dtype(), value.layout().sizes, bytes});
  }
  for (const auto& [name, value] : checkpoint.options)
    additions.metadata.emplace_back(absl::StrCat(kPrefix, name), value);
  return SaveCheckpoint(SessionCoreOf(session)->states(), path, SystemFiles(), additions);
}

absl::StatusOr<TrainingCheckpoint> ReadTrainingCheckpoint(const std::string& path) {
  COTAN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  absl::StatusOr<TrainingCheckpoint> checkpoint = Parse(file.bytes());
  if (checkpoint.ok()) return checkpoint;
  return absl::Status(checkpoint.status().code(), absl::StrCat("'", path, "': ", checkpoint.status().message()));
}

}  // namespace cotan::training
