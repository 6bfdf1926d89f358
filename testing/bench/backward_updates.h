// SPDX-License-Identifier: Apache-2.0

// Memory of training with the optimizer inside the backward: post-accumulate hooks update each parameter and free its
// gradient at once (PyTorch's "optimizer step in backward").
#ifndef COTAN_TESTING_BENCH_BACKWARD_UPDATES_H_
#define COTAN_TESTING_BENCH_BACKWARD_UPDATES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cotan::testing {

// A chain of `layers` calls of one compiled program, relu(x W^T) with W of width x width, each with its own W.
struct UpdatedNetwork {
  int layers = 16;
  int64_t width = 1024;
  int64_t batch = 32;
};

// Trains the network for some steps, and returns the most bytes of resident memory that this took in addition to those
// at its start. `in_backward`: hooks update and free; otherwise the updates follow the backward. `captured`: the
// backward is captured (compiled autograd). Unimplemented: the system does not measure resident memory (/proc).
absl::StatusOr<int64_t> PeakOfTraining(const UpdatedNetwork& network, bool in_backward, bool captured);

// Prints the peaks of all four ways. Errors of PeakOfTraining().
absl::Status PrintUpdatesInBackward(const UpdatedNetwork& network);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_BENCH_BACKWARD_UPDATES_H_
