// SPDX-License-Identifier: Apache-2.0

#include "base/crc32c.h"

#include <array>
#include <cstddef>
#include <cstring>

namespace cotan {
namespace {

constexpr uint32_t kPolynomial = 0x82F63B78u;  // Castagnoli, bits reversed

// kTables[k][b]: the effect of byte b followed by k zero bytes.
constexpr auto kTables = [] {
  std::array<std::array<uint32_t, 256>, 8> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t previous = tables[k - 1][byte];
      tables[k][byte] = (previous >> 8) ^ tables[0][previous & 0xFF];
    }
  }
  return tables;
}();

uint64_t Load64(const char* from) {
  uint64_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) uint32_t Hardware(absl::string_view bytes, uint32_t crc) {
  uint64_t state = ~crc;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) state = __builtin_ia32_crc32di(state, Load64(at));
  auto tail = static_cast<uint32_t>(state);
  for (; left > 0; ++at, --left) tail = __builtin_ia32_crc32qi(tail, static_cast<unsigned char>(*at));
  return ~tail;
}
#endif

}  // namespace

uint32_t crc32c_internal::Portable(absl::string_view bytes, uint32_t crc) {
  uint32_t state = ~crc;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; at += 8, left -= 8) {
    const uint64_t word = Load64(at) ^ state;
    state = 0;
    for (size_t k = 0; k < 8; ++k) state ^= kTables[7 - k][(word >> (8 * k)) & 0xFF];
  }
  for (; left > 0; ++at, --left) state = (state >> 8) ^ kTables[0][(state ^ static_cast<unsigned char>(*at)) & 0xFF];
  return ~state;
}

uint32_t Crc32c(absl::string_view bytes, uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return Hardware(bytes, crc);
#endif
  return crc32c_internal::Portable(bytes, crc);
}

}  // namespace cotan
