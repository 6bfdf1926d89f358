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
// The instruction has a latency of three cycles and a throughput of one, so that three parts of the bytes are read at
// once. Parts of two pages are long enough for the processor to see three streams; the prefetches bridge their ends.
constexpr size_t kParts = 3;
constexpr int kPartBits = 13;
constexpr size_t kPartBytes = size_t{1} << kPartBits;

// A linear map of states: the image of each bit.
using StateMap = std::array<uint32_t, 32>;

constexpr uint32_t Apply(const StateMap& map, uint32_t state) {
  uint32_t image = 0;
  for (size_t bit = 0; bit < 32; ++bit) image ^= ((state >> bit) & 1) != 0 ? map[bit] : 0;
  return image;
}

// Returns the map of a state to the one after a part of zero bytes, by squaring that of one byte.
constexpr StateMap MapOfPart() {
  StateMap map{};
  for (size_t bit = 0; bit < 32; ++bit) {
    const uint32_t state = uint32_t{1} << bit;
    map[bit] = (state >> 8) ^ kTables[0][state & 0xFF];
  }
  for (int i = 0; i < kPartBits; ++i) {
    StateMap square{};
    for (size_t bit = 0; bit < 32; ++bit) square[bit] = Apply(map, map[bit]);
    map = square;
  }
  return map;
}

// kAfterPart[k][b]: the state after a part of zero bytes, if byte k of the state is b and the others are 0.
constexpr auto kAfterPart = [] {
  const StateMap map = MapOfPart();
  std::array<std::array<uint32_t, 256>, 4> tables{};
  for (size_t k = 0; k < 4; ++k) {
    for (uint32_t byte = 0; byte < 256; ++byte) {
      for (size_t bit = 0; bit < 8; ++bit) tables[k][byte] ^= ((byte >> bit) & 1) != 0 ? map[8 * k + bit] : 0;
    }
  }
  return tables;
}();

uint64_t AfterPart(uint64_t state) {
  uint32_t after = 0;
  for (size_t k = 0; k < 4; ++k) after ^= kAfterPart[k][(state >> (8 * k)) & 0xFF];
  return after;
}

__attribute__((target("sse4.2"))) uint32_t Hardware(absl::string_view bytes, uint32_t crc) {
  uint64_t state = ~crc;
  const char* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= kParts * kPartBytes; at += kParts * kPartBytes, left -= kParts * kPartBytes) {
    uint64_t second = 0, third = 0;
    for (size_t i = 0; i < kPartBytes; i += 8) {
      if (i % 64 == 0) {
        for (size_t part = 0; part < kParts; ++part) __builtin_prefetch(at + (kParts + part) * kPartBytes + i);
      }
      state = __builtin_ia32_crc32di(state, Load64(at + i));
      second = __builtin_ia32_crc32di(second, Load64(at + kPartBytes + i));
      third = __builtin_ia32_crc32di(third, Load64(at + 2 * kPartBytes + i));
    }
    state = AfterPart(AfterPart(state) ^ second) ^ third;
  }
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
