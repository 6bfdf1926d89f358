// SPDX-License-Identifier: Apache-2.0

// Rewrites of the assertions and prints of exported programs.
#ifndef COTAN_AOT_DECOMPOSITIONS_ASSERT_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_ASSERT_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of ops that check or print to a library for kRewriteKey. _assert_async and
// _functional_assert_async (of one number that must not be zero) and _print become effects
// (aot/capture/effects.h). The number of _assert_scalar and _functional_assert_scalar is known while
// tracing; they throw c10::Error if it is zero.
void AddAssertRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_ASSERT_OPS_H_
