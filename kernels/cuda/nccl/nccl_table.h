// SPDX-License-Identifier: Apache-2.0

// The functions of NCCL that groups of GPUs call: loaded from libnccl.so.2, or filled by the simulator in tests.
#ifndef COTAN_KERNELS_CUDA_NCCL_NCCL_TABLE_H_
#define COTAN_KERNELS_CUDA_NCCL_NCCL_TABLE_H_

#include <cstddef>
#include <functional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/cuda/nccl/nccl_types.h"

namespace cotan::cuda::nccl {

// The functions that return an ncclResult_t, as X(symbol, parameters). What callers may rely on:
// - ncclCommInitRankConfig: joins the group that `id` names, on the device of the current context. It waits for all
//   ranks unless `config` has blocking = 0, as it has below. Sets `communicator` to null if it fails.
// - ncclInProgress: the call goes on without the caller, and calls that use the communicator, except the two that are
//   named below, wait until ncclCommGetAsyncError reports no longer ncclInProgress. Only then is a transfer queued.
// - ncclSend, ncclRecv, ncclAllGather: queue a transfer, of `count` elements, on a stream of that device. It may be
//   recorded into a graph. All ranks queue the same ones in the same order. Those between ncclGroupStart and
//   ncclGroupEnd, calls of one thread, are queued by the latter, and make progress together.
// - ncclAllGather: rank r's elements are those from r * count on of the result; a rank may send them from there.
// - ncclCommGetAsyncError, ncclCommAbort: may be called while a call is in progress, and by another thread than the one
//   that made it, but by one thread at a time, and not during another call that uses the communicator.
// - ncclCommAbort: makes queued transfers, and a call that is in progress, end, with undefined results, and destroys
//   the communicator.
// - ncclCommAbort, ncclCommDestroy: wait until all graphs with transfers of the communicator are destroyed.
#define COTAN_NCCL_FUNCTIONS(X)                                                                                      \
  X(ncclGetVersion, (int* version))                                                                                  \
  X(ncclGetUniqueId, (ncclUniqueId * id))                                                                            \
  X(ncclCommInitRankConfig, (ncclComm_t * communicator, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config)) \
  X(ncclCommDestroy, (ncclComm_t communicator))                                                                      \
  X(ncclCommAbort, (ncclComm_t communicator))                                                                        \
  X(ncclCommGetAsyncError, (ncclComm_t communicator, ncclResult_t * error))                                          \
  X(ncclGroupStart, ())                                                                                              \
  X(ncclGroupEnd, ())                                                                                                \
  X(ncclSend,                                                                                                        \
    (const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator, cudaStream_t stream))   \
  X(ncclRecv, (void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t communicator, cudaStream_t stream)) \
  X(ncclAllGather,                                                                                                   \
    (const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t communicator, cudaStream_t stream))

// Example:
//
//   COTAN_ASSIGN_OR_RETURN(const NcclTable* nccl, NcclTable::Get());
//   COTAN_NCCL_RETURN_IF_ERROR(*nccl, ncclCommGetAsyncError(communicator, &error));
struct NcclTable {
#define COTAN_NCCL_FUNCTION(name, parameters) std::function<ncclResult_t parameters> name;
  COTAN_NCCL_FUNCTIONS(COTAN_NCCL_FUNCTION)
#undef COTAN_NCCL_FUNCTION
  // Return the text of a result, and of the last error of the process.
  std::function<const char*(ncclResult_t result)> ncclGetErrorString;
  std::function<const char*(ncclComm_t communicator)> ncclGetLastError;

  // Returns the functions of the shared library `file`, which is never unloaded.
  // Unavailable: the library is not installed, or lacks a function.
  static absl::StatusOr<NcclTable> Load(absl::string_view file);

  // Returns the installed library, libnccl.so.2, which the first call loads. Thread-safe.
  // Unavailable: as Load().
  static absl::StatusOr<const NcclTable*> Get();

  // Returns the status of a call that returned `result`; `expression` is the text of the call, for the message. OK also
  // for ncclInProgress.
  // Unavailable: another rank has ended, or its connection has failed. Internal: all other errors.
  absl::Status ToStatus(ncclResult_t result, absl::string_view expression) const;
};

// Evaluates `call`, a call of a function of the NcclTable `table`, and returns its error, if any, from the calling
// function.
#define COTAN_NCCL_RETURN_IF_ERROR(table, call) COTAN_RETURN_IF_ERROR((table).ToStatus((table).call, #call))

}  // namespace cotan::cuda::nccl

#endif  // COTAN_KERNELS_CUDA_NCCL_NCCL_TABLE_H_
