// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/idx_dataset.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::training {
namespace {

DType DTypeOfCode(uint8_t code) {
  switch (code) {
    case 0x08:
      return DType::kUInt8;
    case 0x09:
      return DType::kInt8;
    case 0x0B:
      return DType::kInt16;
    case 0x0C:
      return DType::kInt32;
    case 0x0D:
      return DType::kFloat32;
    case 0x0E:
      return DType::kFloat64;
    default:
      return DType::kUndefined;
  }
}

int64_t BigEndian32(absl::string_view bytes) {
  uint32_t value = 0;
  for (char byte : bytes.substr(0, 4)) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

struct IdxHeader {
  DType dtype = DType::kUndefined;
  DimVector sizes;
  size_t bytes = 0;
};

absl::StatusOr<IdxHeader> ParseHeader(absl::string_view file, absl::string_view name) {
  if (absl::StartsWith(file, "\x1f\x8b")) {
    return absl::InvalidArgumentError(absl::StrCat(name, " is compressed; unpack it with gunzip"));
  }
  IdxHeader header;
  const bool has_magic = file.size() >= 4 && file[0] == 0 && file[1] == 0;
  if (has_magic) header.dtype = DTypeOfCode(static_cast<uint8_t>(file[2]));
  if (header.dtype == DType::kUndefined) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, " is not an IDX file: it begins with ", absl::BytesToHexString(file.substr(0, 4)),
                     "; expected 0000, a type from 08 to 0e and the number of dimensions"));
  }
  const size_t rank = static_cast<uint8_t>(file[3]);
  header.bytes = 4 + 4 * rank;
  if (rank == 0 || rank > kMaxRank || file.size() < header.bytes) {
    return absl::InvalidArgumentError(absl::StrCat(name, ", offset 3: ", rank, " dimensions; expected 1 to ", kMaxRank,
                                                   ", with 4 bytes each, in a file of ", file.size(), " bytes"));
  }
  for (size_t i = 0; i < rank; ++i) header.sizes.push_back(BigEndian32(file.substr(4 + 4 * i)));
  return header;
}

// Reverses the bytes of each element.
void SwapBytes(char* data, size_t bytes, size_t element) {
  for (size_t i = 0; i < bytes; i += element) std::reverse(data + i, data + i + element);
}

}  // namespace

absl::StatusOr<Tensor> ParseIdx(absl::string_view bytes, absl::string_view name) {
  COTAN_ASSIGN_OR_RETURN(const IdxHeader header, ParseHeader(bytes, name));
  const size_t element = ByteSize(header.dtype);
  const int64_t count = BoundedElements(header.sizes);
  const absl::string_view body = bytes.substr(header.bytes);
  if (count < 0 || static_cast<uint64_t>(count) * element != body.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ", offset 4: the header says ", DTypeName(header.dtype), "[", absl::StrJoin(header.sizes, ","), "], but ",
        body.size(), " bytes follow it at offset ", header.bytes, "; copy or download the file again"));
  }
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(header.dtype, header.sizes));
  if (body.empty()) return tensor;
  std::memcpy(tensor.address(), body.data(), body.size());
  SwapBytes(static_cast<char*>(tensor.address()), body.size(), element);
  return tensor;
}

absl::StatusOr<Tensor> ReadIdx(const std::string& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (file.ok()) return ParseIdx(file->bytes(), path);
  const std::string packed = absl::StrCat(path, ".gz");
  if (absl::IsNotFound(file.status()) && ::access(packed.c_str(), F_OK) == 0) {
    return absl::NotFoundError(absl::StrCat(path, " does not exist, but ", packed, " does; unpack it with gunzip"));
  }
  return file.status();
}

absl::StatusOr<Dataset> ReadIdxDataset(absl::Span<const std::pair<std::string, std::string>> columns) {
  std::vector<Column> read;
  std::string paths;
  for (const auto& [name, path] : columns) {
    COTAN_ASSIGN_OR_RETURN(Tensor values, ReadIdx(path));
    read.push_back({name, std::move(values)});
    absl::StrAppend(&paths, paths.empty() ? "" : ", ", path);
  }
  absl::StatusOr<Dataset> data = Dataset::Create(std::move(read));
  if (data.ok()) return data;
  return absl::Status(data.status().code(), absl::StrCat(paths, ": ", data.status().message()));
}

}  // namespace cotan::training
