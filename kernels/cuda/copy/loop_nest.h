// SPDX-License-Identifier: Apache-2.0

// The index space that a kernel visits, as loops over strided operands.
#ifndef COTAN_KERNELS_CUDA_COPY_LOOP_NEST_H_
#define COTAN_KERNELS_CUDA_COPY_LOOP_NEST_H_

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/layout.h"

namespace cotan::cuda {

// A loop: its size, and its stride in each operand, in elements.
struct LoopDim {
  int64_t size = 1;
  DimVector strides = {};
};

// Loops, outermost first. Every loop has a stride for each of `operands` operands; loops of size 1 are omitted.
class LoopNest {
 public:
  // Describes operands that have the same sizes.
  LoopNest(absl::Span<const int64_t> sizes, std::initializer_list<absl::Span<const int64_t>> strides);
  explicit LoopNest(absl::Span<const LoopDim> dims);

  // Orders the loops by their stride in operand `operand`, largest first, and joins neighbours that are one dimension
  // in all operands.
  void Simplify(size_t operand);
  // Joins neighbours without a change of the order.
  void Merge();

  const std::vector<LoopDim>& dims() const { return dims_; }
  // Returns the product of the sizes.
  int64_t count() const;
  // Returns 1 + the largest offset of an element of operand `operand`.
  int64_t Extent(size_t operand) const;

  // Returns the largest number of elements, a power of 2 and at most `max`, that are consecutive in all operands of
  // `operands` in the innermost loop, and begin at multiples of that number. Loop strides of other operands must be 0
  // in the innermost loop, otherwise the result is 1.
  int64_t VectorSize(absl::Span<const size_t> operands, int64_t max) const;
  // Returns the nest of vectors of `vector` elements: the innermost loop is shorter, the strides of `operands` count
  // vectors. Other operands have stride 0 in the innermost loop. `vector` is at most VectorSize(operands).
  LoopNest OfVectors(absl::Span<const size_t> operands, int64_t vector) const;

  // Removes loop `dim` and returns it.
  LoopDim Take(size_t dim);

  // Returns the loops as a type of the device library: "cotan::Dims<cotan::Dim<3, 1, 2>, ...>".
  std::string Text() const;

 private:
  std::vector<LoopDim> dims_;
};

// Returns the unsigned type of device code that holds all numbers up to `largest` and a few blocks of threads more.
absl::string_view IndexTypeFor(int64_t largest);

// Returns a constant of type long long as source text.
std::string Literal(int64_t value);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_COPY_LOOP_NEST_H_
