// SPDX-License-Identifier: Apache-2.0

// Reads safetensors files: the header that is written for an accepted file reads back as the same tensors.
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "runtime/session/safetensors.h"
#include "runtime/training/safetensors_dataset.h"
#include "testing/fuzz/fuzz_target.h"
#include "testing/fuzz/safetensors_mutator.h"

namespace cotan::testing {
namespace {

void CheckRoundTrip(const SafetensorsFile& file) {
  absl::StatusOr<std::string> bytes = SafetensorsHeader(file);
  if (!bytes.ok()) return;  // a name that is not UTF-8
  for (const SafetensorsEntry& entry : file.tensors) absl::StrAppend(&*bytes, entry.bytes);
  const absl::StatusOr<SafetensorsFile> read = ParseSafetensors(*bytes);
  Require(read.ok(), read.status().ToString());
  Require(read->tensors.size() == file.tensors.size(), "all tensors are written");
  for (size_t i = 0; i < file.tensors.size(); ++i) {
    const SafetensorsEntry &expected = file.tensors[i], &actual = read->tensors[i];
    Require(actual.name == expected.name && actual.dtype == expected.dtype && actual.sizes == expected.sizes &&
                actual.bytes == expected.bytes,
            "a tensor is read as it was written");
  }
  Require(read->metadata == file.metadata, "metadata are read as they were written");
}

}  // namespace

bool RunInput(absl::string_view input) {
  (void)training::ParseSafetensorsDataset(input, "input").ok();  // accepted or refused
  const absl::StatusOr<SafetensorsFile> file = ParseSafetensors(input);
  if (!file.ok()) return false;
  CheckRoundTrip(*file);
  return true;
}

std::string MutateInput(absl::string_view input, std::mt19937_64& random) { return MutateSafetensors(input, random); }

std::vector<std::string> SeedInputs() {
  const std::string numbers(48, '\1');
  const absl::string_view bytes = numbers;
  const SafetensorsFile file = {{{"x", DType::kFloat32, {2, 3}, bytes.substr(0, 24)},
                                 {"label \"1\"", DType::kInt64, {2}, bytes.substr(24, 16)},
                                 {"empty", DType::kFloat16, {0, 4}, bytes.substr(40, 0)},
                                 {"scalar", DType::kFloat64, {}, bytes.substr(40, 8)}},
                                {{"key", "value"}, {"format", "pt"}}};
  const absl::StatusOr<std::string> header = SafetensorsHeader(file);
  Require(header.ok(), header.status().ToString());
  return {*header + numbers, *SafetensorsHeader({})};
}

}  // namespace cotan::testing
