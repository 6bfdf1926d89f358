// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/checkpoint.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "runtime/session/safetensors.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using serialization::State;

constexpr absl::string_view kVersionKey = "cotan_checkpoint";
constexpr absl::string_view kChecksumKey = "cotan_crc32c";

// The persistent states: those that a checkpoint holds.
std::vector<int> PersistentStates(const Program& program) {
  std::vector<int> states;
  for (int i = 0; i < program.artifact().states_size(); ++i) {
    const State& state = program.state(i);
    if (state.persistent() && state.role() != State::CONSTANT) states.push_back(i);
  }
  return states;
}

absl::Status CheckMetadata(const SafetensorsFile& file) {
  std::string checksum;
  for (const auto& [key, value] : file.metadata) {
    int version = 0;
    if (key == kVersionKey && (!absl::SimpleAtoi(value, &version) || version < 1 || version > kCheckpointVersion)) {
      return absl::UnimplementedError(absl::StrCat("checkpoint version '", absl::CEscape(value),
                                                   "'; this build reads versions 1 to ", kCheckpointVersion));
    }
    if (key == kChecksumKey) checksum = value;
  }
  uint32_t crc = 0;
  for (const SafetensorsEntry& entry : file.tensors) crc = Crc32c(entry.bytes, crc);
  if (checksum.empty() || checksum == absl::StrCat(crc)) return absl::OkStatus();
  return absl::DataLossError("damaged: the checksum of the data is wrong");
}

// "a, b, c and 12 more".
std::string Listed(const std::vector<std::string>& items) {
  constexpr size_t kShown = 20;
  const size_t shown = std::min(items.size(), kShown);
  std::string text = absl::StrJoin(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(shown), ", ");
  if (items.size() > shown) absl::StrAppend(&text, " and ", items.size() - shown, " more");
  return text;
}

std::string TypeOf(const SafetensorsEntry& entry) {
  return absl::StrCat(DTypeName(entry.dtype), "[", absl::StrJoin(entry.sizes, ","), "]");
}

// Returns a tensor that is only read. It has the entry's bytes where they are, unless they are not aligned.
absl::StatusOr<Tensor> TensorOf(const SafetensorsEntry& entry) {
  if (reinterpret_cast<uintptr_t>(entry.bytes.data()) % ByteSize(entry.dtype) == 0) {
    StridedLayout layout = {.sizes = entry.sizes, .strides = ContiguousStrides(entry.sizes)};
    auto storage = Storage::Borrow(HostDevice(), const_cast<char*>(entry.bytes.data()), entry.bytes.size());
    return Tensor::InStorage(std::move(storage), entry.dtype, std::move(layout));
  }
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(entry.dtype, entry.sizes));
  if (!entry.bytes.empty()) std::memcpy(tensor.address(), entry.bytes.data(), entry.bytes.size());
  return tensor;
}

// Pairs states with the file's tensors, which borrow its bytes, or reports how they differ.
absl::StatusOr<std::vector<StateValue>> Match(const Program& program, const SafetensorsFile& file) {
  absl::flat_hash_map<absl::string_view, const SafetensorsEntry*> by_name;
  for (const SafetensorsEntry& entry : file.tensors) by_name.emplace(entry.name, &entry);
  std::vector<std::string> missing;
  std::vector<std::string> mismatched;
  std::vector<StateValue> values;
  for (int index : PersistentStates(program)) {
    const State& state = program.state(index);
    const auto found = by_name.find(state.name());
    if (found == by_name.end()) {
      missing.push_back(state.name());
      continue;
    }
    const SafetensorsEntry& entry = *found->second;
    by_name.erase(found);
    COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, DenseLayout(state.type(), {}));
    if (entry.dtype != ToDType(state.type().dtype()) || entry.sizes != layout.sizes) {
      mismatched.push_back(absl::StrCat(state.name(), " (", TypeOf(entry), ", expected ",
                                        DTypeName(ToDType(state.type().dtype())), "[", absl::StrJoin(layout.sizes, ","),
                                        "])"));
      continue;
    }
    COTAN_ASSIGN_OR_RETURN(Tensor tensor, TensorOf(entry));
    values.push_back({index, std::move(tensor)});
  }
  std::vector<std::string> unexpected;
  for (const SafetensorsEntry& entry : file.tensors) {
    const bool is_addition = absl::StartsWith(entry.name, kCheckpointAdditionPrefix);
    if (by_name.contains(entry.name) && !is_addition) unexpected.push_back(absl::CEscape(entry.name));
  }
  if (missing.empty() && unexpected.empty() && mismatched.empty()) return values;
  std::string message = "a checkpoint of another model";
  if (!missing.empty()) absl::StrAppend(&message, "; missing: ", Listed(missing));
  if (!unexpected.empty()) absl::StrAppend(&message, "; unexpected: ", Listed(unexpected));
  if (!mismatched.empty()) absl::StrAppend(&message, "; of another type: ", Listed(mismatched));
  return absl::InvalidArgumentError(message);
}

absl::Status CheckAdditions(const SafetensorsFile& additions, const Program& program) {
  const auto check = [&program](const std::string& name, bool is_new) {
    if (!is_new) {
      return absl::InvalidArgumentError(
          absl::StrCat("the addition '", name, "' of a checkpoint is given twice; give each a name of its own"));
    }
    if (absl::StartsWith(name, kCheckpointAdditionPrefix) && !program.FindState(name).ok()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the addition '", name,
                                                   "' of a checkpoint: its name does not begin with '",
                                                   kCheckpointAdditionPrefix, "', or is that of a state"));
  };
  absl::flat_hash_set<absl::string_view> tensors, metadata;
  for (const SafetensorsEntry& entry : additions.tensors) {
    COTAN_RETURN_IF_ERROR(check(entry.name, tensors.insert(entry.name).second));
  }
  for (const auto& pair : additions.metadata) {
    COTAN_RETURN_IF_ERROR(check(pair.first, metadata.insert(pair.first).second));
  }
  return absl::OkStatus();
}

absl::Status LoadBytes(absl::string_view bytes, StateStore& states) {
  COTAN_ASSIGN_OR_RETURN(const SafetensorsFile file, ParseSafetensors(bytes));
  COTAN_RETURN_IF_ERROR(CheckMetadata(file));
  COTAN_ASSIGN_OR_RETURN(const std::vector<StateValue> values, Match(states.program(), file));
  return states.WriteAll(values);
}

}  // namespace

absl::Status SaveCheckpoint(const StateStore& states, const std::string& path, FileSystem& files,
                            const SafetensorsFile& additions) {
  COTAN_RETURN_IF_ERROR(CheckAdditions(additions, states.program()));
  std::vector<Tensor> tensors;  // own the bytes
  SafetensorsFile file;
  for (int index : PersistentStates(states.program())) {
    COTAN_ASSIGN_OR_RETURN(Tensor tensor, states.Read(index));
    const absl::string_view bytes(static_cast<const char*>(tensor.address()), tensor.storage()->bytes());
    file.tensors.push_back({states.program().state(index).name(), tensor.dtype(), tensor.layout().sizes, bytes});
    tensors.push_back(std::move(tensor));
  }
  file.tensors.insert(file.tensors.end(), additions.tensors.begin(), additions.tensors.end());
  // Tensors with wide elements come first, so that each tensor is aligned in the file.
  std::stable_sort(file.tensors.begin(), file.tensors.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return ByteSize(a.dtype) > ByteSize(b.dtype);
  });
  uint32_t crc = 0;
  for (const SafetensorsEntry& entry : file.tensors) crc = Crc32c(entry.bytes, crc);
  file.metadata = {{std::string(kVersionKey), absl::StrCat(kCheckpointVersion)},
                   {std::string(kChecksumKey), absl::StrCat(crc)}};
  file.metadata.insert(file.metadata.end(), additions.metadata.begin(), additions.metadata.end());
  COTAN_ASSIGN_OR_RETURN(const std::string header, SafetensorsHeader(file));
  std::vector<absl::string_view> pieces = {header};
  for (const SafetensorsEntry& entry : file.tensors) pieces.push_back(entry.bytes);
  return WriteFileAtomically(path, pieces, files);
}

absl::Status LoadCheckpoint(const std::string& path, StateStore& states) {
  COTAN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const absl::Status status = LoadBytes(file.bytes(), states);
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("'", path, "': ", status.message()));
}

}  // namespace cotan
