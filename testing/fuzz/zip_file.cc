// SPDX-License-Identifier: Apache-2.0

#include "testing/fuzz/zip_file.h"

#include <array>
#include <cstddef>
#include <cstdint>

namespace cotan::testing {
namespace {

// Sizes and signatures of the records of a zip file (PKWARE, "APPNOTE.TXT", 4.3).
constexpr size_t kLocalHeader = 30;
constexpr size_t kDirectoryHeader = 46;
constexpr size_t kEndRecord = 22;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint32_t kDirectorySignature = 0x02014b50;
constexpr uint32_t kEndSignature = 0x06054b50;

uint32_t Crc32(absl::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> remainders = {};
    for (uint32_t i = 0; i < 256; ++i) {
      remainders[i] = i;
      for (int bit = 0; bit < 8; ++bit) remainders[i] = (remainders[i] >> 1) ^ ((remainders[i] & 1) * 0xedb88320U);
    }
    return remainders;
  }();
  uint32_t crc = 0xffffffff;
  for (const char byte : bytes) crc = (crc >> 8) ^ table[(crc ^ static_cast<uint8_t>(byte)) & 0xff];
  return ~crc;
}

// Returns the little-endian number of `size` bytes at `place`; 0 beyond the end.
uint32_t NumberAt(absl::string_view bytes, size_t place, size_t size) {
  if (place > bytes.size() || size > bytes.size() - place) return 0;
  uint32_t number = 0;
  for (size_t i = 0; i < size; ++i) number |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[place + i])) << (8 * i);
  return number;
}

void Append(std::string& bytes, uint64_t number, size_t size) {
  for (size_t i = 0; i < size; ++i) bytes.push_back(static_cast<char>(number >> (8 * i)));
}

// Appends what a local header and one of the directory have in common: version, flags, method, time, date, checksum,
// sizes, length of the name, no extra field.
void AppendCommon(std::string& bytes, const ZipEntry& entry, uint32_t checksum) {
  Append(bytes, 20, 2);
  Append(bytes, 0, 2 + 2 + 2);
  Append(bytes, 0x21, 2);
  Append(bytes, checksum, 4);
  Append(bytes, entry.content.size(), 4);
  Append(bytes, entry.content.size(), 4);
  Append(bytes, entry.name.size(), 2);
  Append(bytes, 0, 2);
}

}  // namespace

std::optional<std::vector<ZipEntry>> ReadZip(absl::string_view archive) {
  const size_t end = archive.rfind(absl::string_view("PK\5\6", 4));
  if (end == absl::string_view::npos || archive.size() - end < kEndRecord) return std::nullopt;
  size_t place = NumberAt(archive, end + 16, 4);
  std::vector<ZipEntry> entries;
  for (uint32_t left = NumberAt(archive, end + 10, 2); left > 0; --left) {
    if (NumberAt(archive, place, 4) != kDirectorySignature || NumberAt(archive, place + 10, 2) != 0)
      return std::nullopt;
    const size_t size = NumberAt(archive, place + 24, 4), name_size = NumberAt(archive, place + 28, 2);
    const size_t local = NumberAt(archive, place + 42, 4);
    if (NumberAt(archive, local, 4) != kLocalSignature) return std::nullopt;
    const size_t begin = local + kLocalHeader + NumberAt(archive, local + 26, 2) + NumberAt(archive, local + 28, 2);
    if (begin > archive.size() || size > archive.size() - begin) return std::nullopt;
    if (place + kDirectoryHeader + name_size > archive.size()) return std::nullopt;
    entries.push_back(
        {std::string(archive.substr(place + kDirectoryHeader, name_size)), std::string(archive.substr(begin, size))});
    place += kDirectoryHeader + name_size + NumberAt(archive, place + 30, 2) + NumberAt(archive, place + 32, 2);
  }
  return entries;
}

std::string WriteZip(const std::vector<ZipEntry>& entries) {
  std::string archive, directory;
  for (const ZipEntry& entry : entries) {
    const uint32_t checksum = Crc32(entry.content);
    Append(directory, kDirectorySignature, 4);
    Append(directory, 20, 2);
    AppendCommon(directory, entry, checksum);
    Append(directory, 0, 2 + 2 + 2);
    Append(directory, 0, 4);
    Append(directory, archive.size(), 4);
    directory += entry.name;
    Append(archive, kLocalSignature, 4);
    AppendCommon(archive, entry, checksum);
    archive += entry.name;
    archive += entry.content;
  }
  const size_t start = archive.size();
  archive += directory;
  Append(archive, kEndSignature, 4);
  Append(archive, 0, 2 + 2);
  Append(archive, entries.size(), 2);
  Append(archive, entries.size(), 2);
  Append(archive, directory.size(), 4);
  Append(archive, start, 4);
  Append(archive, 0, 2);
  return archive;
}

}  // namespace cotan::testing
