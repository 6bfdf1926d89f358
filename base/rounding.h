// SPDX-License-Identifier: Apache-2.0

// Integer divisions that round up or down.
#ifndef COTAN_BASE_ROUNDING_H_
#define COTAN_BASE_ROUNDING_H_

#include <cstddef>
#include <cstdint>

namespace cotan {

// Returns the least integer that is at least count / divisor. count >= 0, divisor > 0.
constexpr int64_t CeilDiv(int64_t count, int64_t divisor) { return count / divisor + (count % divisor != 0 ? 1 : 0); }

// Returns the greatest integer that is at most a / b. b != 0; the quotient must be representable.
constexpr int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

// Returns the least multiple of `multiple` that is at least `count`. count >= 0, multiple > 0.
constexpr int64_t RoundUp(int64_t count, int64_t multiple) { return CeilDiv(count, multiple) * multiple; }
constexpr size_t RoundUp(size_t count, size_t multiple) { return (count + multiple - 1) / multiple * multiple; }

}  // namespace cotan

#endif  // COTAN_BASE_ROUNDING_H_
