// SPDX-License-Identifier: Apache-2.0

// Bytes that the forwards of exported models (.pt2) save for their backwards, beside those that PyTorch's partitioners
// save.
#ifndef COTAN_TESTING_MODELS_SAVED_H_
#define COTAN_TESTING_MODELS_SAVED_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "aot/partitioner/partition.h"

namespace cotan::testing {

// Bytes of a compiled forward and backward, on one thread of the CPU. Saved values are those of the example inputs; the
// peak of a model with dynamic dimensions is that of the largest sizes.
struct PairBytes {
  int64_t saved = 0;
  int64_t peak = 0;  // saved values and the larger arena
};

// Compiles the model at `path` for its example inputs, as a forward and a backward, and measures both.
// Errors of reading and compiling the model.
absl::StatusOr<PairBytes> MeasurePair(const std::string& path, const aot::PartitionOptions& options);

// Bytes that PyTorch's partitioners save of a model, without parameters and buffers; for each partitioner the least of
// the counts that record_saved_bytes.py made: with and without decompositions, of tensors and of their storages.
struct ReferenceBytes {
  std::optional<int64_t> min_cut;
  std::optional<int64_t> default_partition;
};

using References = std::map<std::string, ReferenceBytes>;

// Returns the counts of the file that record_saved_bytes.py wrote, by name of the model.
// NotFound: the file cannot be read. InvalidArgument: it was not written by that script.
absl::StatusOr<References> ReadReferenceBytes(const std::string& path);
// Returns the counts of a model. The functional form of a network, NAME_func, has those of NAME if PyTorch cannot trace
// it. NotFound: there is no count of min_cut.
absl::StatusOr<ReferenceBytes> ReferenceOf(const References& references, const std::string& name);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_MODELS_SAVED_H_
