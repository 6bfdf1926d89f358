// SPDX-License-Identifier: Apache-2.0

// The order in which an epoch visits the examples.
#ifndef COTAN_RUNTIME_TRAINING_SHUFFLE_H_
#define COTAN_RUNTIME_TRAINING_SHUFFLE_H_

#include <cstdint>
#include <vector>

namespace cotan::training {

// Returns a permutation of [0, count) that depends only on the arguments, so that a resumed run visits the examples in
// the same order. Each permutation is equally likely up to 2^-32. It draws from the generator of sessions
// (base/philox.h), from blocks that a session with the same seed reaches after 2^63 blocks only. `count` is at least 0
// and below 2^32, `epoch` below 2^31.
std::vector<int64_t> ShuffledOrder(int64_t count, uint64_t seed, uint64_t epoch);

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_SHUFFLE_H_
