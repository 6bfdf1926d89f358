// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/exchange.h"

#include <algorithm>
#include <array>

namespace cotan {
namespace {

template <typename T>
void Sum(absl::Span<const char* const> parts, int64_t elements, bool mean, char* sum) {
  // A piece of the sum is complete before it is written, because `sum` may be a part.
  constexpr int64_t kPiece = 2048;
  std::array<T, kPiece> piece;
  const T count = static_cast<T>(parts.size());
  for (int64_t from = 0; from < elements; from += kPiece) {
    const int64_t size = std::min(kPiece, elements - from);
    const T* const first = reinterpret_cast<const T*>(parts[0]) + from;
    std::copy(first, first + size, piece.begin());
    for (const char* const part : parts.subspan(1)) {
      const T* const values = reinterpret_cast<const T*>(part) + from;
      for (int64_t i = 0; i < size; ++i) piece[static_cast<size_t>(i)] += values[i];
    }
    T* const to = reinterpret_cast<T*>(sum) + from;
    for (int64_t i = 0; i < size; ++i)
      to[i] = mean ? piece[static_cast<size_t>(i)] / count : piece[static_cast<size_t>(i)];
  }
}

}  // namespace

void SumParts(DType dtype, absl::Span<const char* const> parts, int64_t elements, bool mean, char* sum) {
  if (dtype == DType::kFloat64) {
    Sum<double>(parts, elements, mean, sum);
  } else {
    Sum<float>(parts, elements, mean, sum);
  }
}

}  // namespace cotan
