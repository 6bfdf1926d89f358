// Assertions and prints of exported programs.
#ifndef COTAN_AOT_DECOMPOSITIONS_ASSERT_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_ASSERT_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// In a trace, ops of LibTorch that check or print become effects (effects.h):
// _assert_async and _functional_assert_async, of numbers that are not zero, and
// _print. Of _assert_scalar and _functional_assert_scalar the number is known
// while tracing; they throw if it is zero.
void AddAssertRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_ASSERT_OPS_H_
