// SPDX-License-Identifier: Apache-2.0

// A CUDA graph: work that is queued by one call.
#ifndef COTAN_KERNELS_CUDA_DEVICE_GRAPH_H_
#define COTAN_KERNELS_CUDA_DEVICE_GRAPH_H_

#include <cstddef>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "kernels/cuda/driver/driver_table.h"

namespace cotan::cuda {

// An instantiated graph. The stream and its context outlive it; the context is current in each call.
class Graph final : public RecordedWork {
 public:
  // Captures what `queue` queues on `stream`.
  // Errors of `queue`; Internal: it made a call that cannot be captured.
  static absl::StatusOr<std::unique_ptr<RecordedWork>> Capture(const driver::DriverTable& driver,
                                                               driver::CUstream stream,
                                                               absl::FunctionRef<absl::Status()> queue);
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() override;

  absl::Status Run() override;

 private:
  Graph(const driver::DriverTable& driver, driver::CUstream stream) : driver_(driver), stream_(stream) {}

  const driver::DriverTable& driver_;
  const driver::CUstream stream_;
  driver::CUcontext context_ = nullptr;
  driver::CUgraphExec graph_ = nullptr;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_DEVICE_GRAPH_H_
