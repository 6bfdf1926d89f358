// SPDX-License-Identifier: Apache-2.0

// A simulated cuBLASLt.
#ifndef COTAN_KERNELS_CUDA_SIM_CUBLASLT_SIM_CUBLASLT_H_
#define COTAN_KERNELS_CUDA_SIM_CUBLASLT_SIM_CUBLASLT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/cublaslt/cublaslt_table.h"
#include "kernels/cuda/driver/driver_types.h"
#include "kernels/cuda/sim/device_memory.h"

namespace cotan::cuda::sim {

class CublasLtState;

// Checks what callers of cuBLASLt must respect, and queues products on a simulated GPU. Calls fail for unknown handles,
// attributes, values and sizes; matrices that do not fit together; types that the library does not support together; an
// algorithm that was chosen for another product, or for better aligned addresses of matrices or of the bias; a
// workspace that is too small; matrices or a bias that overlap in a way that is not allowed. What depends on memory is
// checked when the product runs: operands and the workspace are in live allocations, and what is read was written
// before.
//
// A call that fails returns CUBLAS_STATUS_INVALID_VALUE, or CUBLAS_STATUS_NOT_SUPPORTED for types;
// cublasLtGetStatusName then also says why. Not thread-safe.
//
//   SimGpu gpu({});
//   SimCublasLt library([&](auto stream, auto label, auto function) {
//     return gpu.EnqueueHostFunction(stream, label, std::move(function));
//   });
//   COTAN_ASSIGN_OR_RETURN(std::unique_ptr<CublasLt> cublaslt, CublasLt::Create(library.table(), gpu.table()));
class SimCublasLt {
 public:
  // Queues a function on the simulated GPU; also into a graph that is recorded on the stream.
  using EnqueueFunction = std::function<absl::Status(driver::CUstream stream, absl::string_view label,
                                                     std::function<absl::Status(DeviceMemory&)> function)>;

  explicit SimCublasLt(EnqueueFunction enqueue);
  SimCublasLt(const SimCublasLt&) = delete;
  SimCublasLt& operator=(const SimCublasLt&) = delete;
  ~SimCublasLt();

  // The functions. They may be called as long as this object lives.
  const cublaslt::CublasLtTable& table() const;

  enum class Fault : uint8_t {
    kNoHandle,          // cublasLtCreate: NOT_INITIALIZED
    kNoAlgorithm,       // cublasLtMatmulAlgoGetHeuristic: finds nothing
    kWorkspaceRefused,  // cublasLtMatmul: NOT_SUPPORTED
    kExecutionFailed,   // cublasLtMatmul: EXECUTION_FAILED
  };
  // Makes the next `count` calls of the fault's function fail.
  void Fail(Fault fault, int count);

  // Returns the text of the last violation, "" if there was none.
  std::string LastViolation() const;
  // Returns the number of handles that were made, destroyed ones too.
  int64_t num_handles() const;
  // Returns the number of products that were queued.
  int64_t num_products() const;
  // FailedPrecondition: handles, descriptors, layouts or preferences are not destroyed.
  absl::Status CheckLeaks() const;

 private:
  std::unique_ptr<CublasLtState> state_;
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_CUBLASLT_SIM_CUBLASLT_H_
