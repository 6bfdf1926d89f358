// Dropout in LibTorch eager that draws what a compiled program draws.
#ifndef COTAN_TESTING_E2E_PHILOX_DROPOUT_H_
#define COTAN_TESTING_E2E_PHILOX_DROPOUT_H_

#include <torch/library.h>

#include <cstdint>

namespace cotan::testing {

// While it lives, LibTorch's dropout on the CPU takes its masks from a Philox
// stream instead of its own generator. The k-th dropout since the last Seek()
// owns the blocks behind those of the ones before it, as in a traced program.
// At most one may live at a time; all use is on one thread.
class PhiloxDropout {
 public:
  PhiloxDropout();
  ~PhiloxDropout();
  PhiloxDropout(const PhiloxDropout&) = delete;
  PhiloxDropout& operator=(const PhiloxDropout&) = delete;

  // The next draw takes block `offset` of stream `seed`.
  void Seek(uint64_t seed, uint64_t offset);
  // The block that the next draw would take.
  uint64_t offset() const;

 private:
  torch::Library override_;
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_E2E_PHILOX_DROPOUT_H_
