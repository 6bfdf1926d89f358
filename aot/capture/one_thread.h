// SPDX-License-Identifier: Apache-2.0

// Computes on one thread of LibTorch.
#ifndef COTAN_AOT_CAPTURE_ONE_THREAD_H_
#define COTAN_AOT_CAPTURE_ONE_THREAD_H_

#include <ATen/Parallel.h>

namespace cotan::aot {

// Within its scope LibTorch computes on one thread: sums are then the same on every machine, and no other thread spins
// while it waits for small tensors.
class OneThread {
 public:
  OneThread() : threads_(at::get_num_threads()) { at::set_num_threads(1); }
  ~OneThread() { at::set_num_threads(threads_); }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  int threads_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_ONE_THREAD_H_
