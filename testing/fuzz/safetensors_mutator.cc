// SPDX-License-Identifier: Apache-2.0

#include "testing/fuzz/safetensors_mutator.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "testing/fuzz/wire_mutator.h"

namespace cotan::testing {
namespace {

constexpr absl::string_view kTexts[] = {"0",
                                        "-1",
                                        "1",
                                        "18446744073709551615",
                                        "9223372036854775808",
                                        "1e3",
                                        "[]",
                                        "[1,0]",
                                        "null",
                                        "\"\"",
                                        "\"F32\"",
                                        "\"I64\"",
                                        "{}",
                                        "\\u0000"};

// Replaces a word of the header, a number or name, by another one.
std::string MutateHeader(absl::string_view header, std::mt19937_64& random) {
  if (header.empty() || random() % 2 == 0) return MutateBytes(header, random);
  size_t begin = random() % header.size();
  while (begin < header.size() && !absl::ascii_isalnum(static_cast<unsigned char>(header[begin]))) ++begin;
  size_t end = begin;
  while (end < header.size() && absl::ascii_isalnum(static_cast<unsigned char>(header[end]))) ++end;
  return absl::StrCat(header.substr(0, begin), kTexts[random() % std::size(kTexts)], header.substr(end));
}

// Sets the number that follows "cotan_crc32c":" to the checksum of the data.
void SetChecksum(std::string& header, absl::string_view data) {
  constexpr absl::string_view kKey = "\"cotan_crc32c\":\"";
  const size_t key = header.find(kKey.data(), 0, kKey.size());
  if (key == std::string::npos) return;
  const size_t begin = key + kKey.size();
  const size_t end = header.find('"', begin);
  if (end != std::string::npos) header.replace(begin, end - begin, absl::StrCat(Crc32c(data)));
}

}  // namespace

std::string MutateSafetensors(absl::string_view file, std::mt19937_64& random) {
  uint64_t size = 0;
  if (file.size() < sizeof(size)) return MutateBytes(file, random);
  std::memcpy(&size, file.data(), sizeof(size));
  if (size > file.size() - sizeof(size) || random() % 16 == 0) return MutateBytes(file, random);
  std::string header(file.substr(sizeof(size), size));
  std::string data(file.substr(sizeof(size) + size));
  if (data.empty() || random() % 3 != 0) {
    header = MutateHeader(header, random);
  } else {
    data = MutateBytes(data, random);
    SetChecksum(header, data);
  }
  size = header.size();
  std::string mutated(sizeof(size), '\0');
  std::memcpy(mutated.data(), &size, sizeof(size));
  return mutated + header + data;
}

}  // namespace cotan::testing
