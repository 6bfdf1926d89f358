// SPDX-License-Identifier: Apache-2.0

// Tolerance for recorded results that cancel to zero.
#ifndef COTAN_AOT_REFERENCES_CANCELLATION_H_
#define COTAN_AOT_REFERENCES_CANCELLATION_H_

namespace cotan::aot {

// Tolerance in epsilons of the dtype, relative to the largest summand: the rounding error of a sum
// scales with its summands, not with its value.
inline constexpr double kCancelledEpsilons = 256;

}  // namespace cotan::aot

#endif  // COTAN_AOT_REFERENCES_CANCELLATION_H_
