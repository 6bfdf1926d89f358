// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/device/graph.h"

#include "base/status_macros.h"

namespace cotan::cuda {

absl::StatusOr<std::unique_ptr<RecordedWork>> Graph::Capture(const driver::DriverTable& driver, driver::CUstream stream,
                                                             absl::FunctionRef<absl::Status()> queue) {
  std::unique_ptr<Graph> result(new Graph(driver, stream));
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver, cuCtxGetCurrent(&result->context_));
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver,
                                    cuStreamBeginCapture_v2(stream, driver::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  const absl::Status queued = queue();
  driver::CUgraph graph = nullptr;
  // Ends the capture also when `queue` failed; its error says more.
  const driver::CUresult ended = driver.cuStreamEndCapture(stream, &graph);
  absl::Status status = queued;
  status.Update(driver.ToStatus(ended, "cuStreamEndCapture"));
  if (status.ok()) {
    status =
        driver.ToStatus(driver.cuGraphInstantiateWithFlags(&result->graph_, graph, 0), "cuGraphInstantiateWithFlags");
  }
  if (graph != nullptr) static_cast<void>(driver.cuGraphDestroy(graph));
  COTAN_RETURN_IF_ERROR(status);
  return std::unique_ptr<RecordedWork>(std::move(result));
}

Graph::~Graph() {
  // The driver keeps an executable graph until queued launches of it have ended.
  if (graph_ != nullptr && driver_.cuCtxSetCurrent(context_) == driver::CUDA_SUCCESS) {
    static_cast<void>(driver_.cuGraphExecDestroy(graph_));
  }
}

absl::Status Graph::Run() {
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuCtxSetCurrent(context_));
  COTAN_CUDA_DRIVER_RETURN_IF_ERROR(driver_, cuGraphLaunch(graph_, stream_));
  return absl::OkStatus();
}

}  // namespace cotan::cuda
