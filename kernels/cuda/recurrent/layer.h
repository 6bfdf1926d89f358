// SPDX-License-Identifier: Apache-2.0

// How the threads of a GPU share a recurrent layer.
#ifndef COTAN_KERNELS_CUDA_RECURRENT_LAYER_H_
#define COTAN_KERNELS_CUDA_RECURRENT_LAYER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/recurrent/persistent.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cuda::recurrent {

// The types of recurrent.cuh as source text, and the launch. Bytes are of global scratch unless stated otherwise.
struct Layer {
  serialization::Recurrent::Cell cell = serialization::Recurrent::RNN_TANH;
  DType dtype = DType::kFloat32;
  int64_t steps = 0, batch = 0, hidden = 0;
  bool reverse = false;

  // Geometry of the products with the weights: see ProductGeometry.
  int64_t depth = 0, outputs = 0, padded = 0;
  int64_t unit_rows = 1;  // outputs of a hidden unit
  int64_t vector = 1, slices = 1;

  int64_t entries = 1;  // batch entries of a block
  int64_t threads = 32;
  int64_t words = 0;  // values of a block
  bool in_shared = true;
  // If set, the block keeps its weights, and the products have another geometry than that above.
  std::optional<Persistent> persistent;

  int64_t blocks() const { return (batch + entries - 1) / entries; }
  int64_t gates() const;  // G of program.proto
  int64_t compute_bytes() const { return dtype == DType::kFloat64 ? 8 : 4; }
  int64_t weight_bytes() const;
  int64_t shared_bytes() const;   // of dynamic shared memory
  int64_t values_offset() const;  // of the values of blocks, after the weights
  int64_t scratch_bytes() const;

  // Returns the part of R that the forward and the backward share.
  std::string Text() const;
};

// Returns the layer of `op`; `sequence` is its hidden operand, [T, N, H]. A block has at most `shared_bytes` bytes of
// shared memory.
Layer LayerOf(const serialization::Recurrent& op, const TensorSpec& sequence, bool is_backward, int64_t shared_bytes);

// Returns the strides of a [T, N, features], [N, features] or [features] operand as a type of recurrent.cuh; of null,
// those of an operand that does not exist.
std::string SequenceText(absl::string_view name, const TensorSpec* spec);

}  // namespace cotan::cuda::recurrent

#endif  // COTAN_KERNELS_CUDA_RECURRENT_LAYER_H_
