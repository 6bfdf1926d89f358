// SPDX-License-Identifier: Apache-2.0

// The kernel's account of a mapping of this process.
#ifndef COTAN_RUNTIME_TESTING_MAPPING_MEMORY_H_
#define COTAN_RUNTIME_TESTING_MAPPING_MEMORY_H_

#include <cstdint>
#include <fstream>
#include <ios>
#include <sstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace cotan::testing {

struct MappingMemory {
  std::string file;           // path of the mapped file; "" for other memory
  int64_t bytes = 0;          // of all its pages
  int64_t private_bytes = 0;  // in pages of the process alone: of a file, those that were written
};

// Returns the account of the mapping that contains `address`.
inline MappingMemory MappingMemoryAt(const void* address) {
  MappingMemory memory;
  bool is_found = false;
  std::ifstream mappings("/proc/self/smaps");
  for (std::string line; std::getline(mappings, line);) {
    // The first line of a mapping is "begin-end flags offset device inode path", the others are "Name: number kB".
    std::istringstream fields(line);
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (fields >> std::hex >> begin >> dash >> end && dash == '-') {
      const auto at = reinterpret_cast<uintptr_t>(address);
      is_found = begin <= at && at < end;
      const size_t slash = line.find('/');
      if (is_found && slash != std::string::npos) memory.file = line.substr(slash);
    }
    absl::string_view text = line;
    int64_t kilobytes = 0;
    const bool is_size = absl::ConsumePrefix(&text, "Size:"), is_private = absl::ConsumePrefix(&text, "Anonymous:");
    if (is_found && (is_size || is_private) && absl::SimpleAtoi(absl::StripSuffix(text, "kB"), &kilobytes)) {
      (is_size ? memory.bytes : memory.private_bytes) = kilobytes * 1024;
    }
  }
  return memory;
}

}  // namespace cotan::testing

#endif  // COTAN_RUNTIME_TESTING_MAPPING_MEMORY_H_
