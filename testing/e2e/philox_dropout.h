// SPDX-License-Identifier: Apache-2.0

// Makes dropout of LibTorch eager draw the random numbers of a compiled program.
#ifndef COTAN_TESTING_E2E_PHILOX_DROPOUT_H_
#define COTAN_TESTING_E2E_PHILOX_DROPOUT_H_

#include <torch/library.h>

#include <cstdint>

namespace cotan::testing {

// While an object exists, LibTorch's dropout on the CPU draws its masks from a Philox stream
// instead of its own generator. The k-th dropout since the last Seek() owns the blocks after those
// of the previous ones, as in a traced program. At most one object may exist at a time; all use is
// on one thread.
class PhiloxDropout {
 public:
  PhiloxDropout();
  ~PhiloxDropout();
  PhiloxDropout(const PhiloxDropout&) = delete;
  PhiloxDropout& operator=(const PhiloxDropout&) = delete;

  // Makes the next draw take block `offset` of stream `seed`.
  void Seek(uint64_t seed, uint64_t offset);
  // Returns the block that the next draw will take.
  uint64_t offset() const;

 private:
  torch::Library override_;
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_E2E_PHILOX_DROPOUT_H_
