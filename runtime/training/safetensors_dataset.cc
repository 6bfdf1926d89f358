// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/safetensors_dataset.h"

#include <cstring>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "runtime/session/safetensors.h"

namespace cotan::training {
namespace {

absl::StatusOr<Dataset> Parse(absl::string_view bytes) {
  COTAN_ASSIGN_OR_RETURN(const SafetensorsFile file, ParseSafetensors(bytes));
  std::vector<Column> columns;
  for (const SafetensorsEntry& entry : file.tensors) {
    COTAN_ASSIGN_OR_RETURN(Tensor values, Tensor::Empty(entry.dtype, entry.sizes));
    if (!entry.bytes.empty()) std::memcpy(values.address(), entry.bytes.data(), entry.bytes.size());
    columns.push_back({entry.name, std::move(values)});
  }
  return Dataset::Create(std::move(columns));
}

// Calls `write` with the parts of the file.
absl::Status WriteParts(const Dataset& data,
                        absl::FunctionRef<absl::Status(absl::Span<const absl::string_view>)> write) {
  SafetensorsFile file;
  for (const Column& column : data.columns()) {
    const absl::string_view bytes(static_cast<const char*>(column.values.address()),
                                  static_cast<size_t>(data.size()) * column.example_bytes());
    file.tensors.push_back({column.name, column.values.dtype(), column.values.layout().sizes, bytes});
  }
  COTAN_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(file));
  std::vector<absl::string_view> parts = {header};
  for (const SafetensorsEntry& entry : file.tensors) parts.push_back(entry.bytes);
  return write(parts);
}

}  // namespace

absl::StatusOr<Dataset> ParseSafetensorsDataset(absl::string_view bytes, absl::string_view name) {
  absl::StatusOr<Dataset> data = Parse(bytes);
  if (data.ok()) return data;
  return absl::Status(data.status().code(), absl::StrCat(name, ": ", data.status().message()));
}

absl::StatusOr<Dataset> ReadSafetensors(const std::string& path) {
  COTAN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return ParseSafetensorsDataset(file.bytes(), path);
}

absl::Status WriteSafetensors(const Dataset& data, const std::string& path) {
  return WriteParts(data, [&](absl::Span<const absl::string_view> parts) { return WriteFileAtomically(path, parts); });
}

absl::Status WriteSafetensors(const Dataset& data, int file, const std::string& name) {
  return WriteParts(data, [&](absl::Span<const absl::string_view> parts) -> absl::Status {
    for (const absl::string_view part : parts) COTAN_RETURN_IF_ERROR(SystemFiles().Write(file, part, name));
    return absl::OkStatus();
  });
}

}  // namespace cotan::training
