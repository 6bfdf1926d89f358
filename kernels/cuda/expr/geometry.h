// SPDX-License-Identifier: Apache-2.0

// Index spaces of kernels. A domain is split into two *axes*, of the kept and of the reduced dimensions; a kernel runs
// over each with one linear index, whose dimensions are merged and ordered so that consecutive indices are near in
// memory. A *pack* is a number of consecutive indices of one axis, which a thread handles together.
#ifndef COTAN_KERNELS_CUDA_EXPR_GEOMETRY_H_
#define COTAN_KERNELS_CUDA_EXPR_GEOMETRY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"

namespace cotan::cuda::expr {

// Something with an offset per index of the domain.
struct Operand {
  enum class Kind : uint8_t {
    kInput,
    kOutput,
    kPosition,  // no memory: the offset itself is the value (iota, random draws)
  };
  Kind kind = Kind::kPosition;
  int index = 0;  // of the op's input or output; kPosition: of the node
  DType dtype = DType::kUndefined;
  DimVector strides;  // in elements, per domain dimension; 0 along broadcast ones

  bool InMemory() const { return kind != Kind::kPosition; }
};

// An index space with the strides of all operands. The last dimension is the fastest.
struct Axis {
  DimVector sizes;                 // without dimensions of size 1
  std::vector<DimVector> strides;  // [operand][dimension]

  int64_t Count() const { return NumElements(sizes); }
};

// Returns the dimensions of the domain of more than one element, ordered by the strides of most bytes of operands,
// outermost first.
std::vector<int> OrderDims(absl::Span<const int64_t> domain_sizes, absl::Span<const Operand> operands);

// Returns the axis of the dimensions `dims`, merged where all operands allow.
Axis MakeAxis(absl::Span<const int> dims, absl::Span<const int64_t> domain_sizes, absl::Span<const Operand> operands);

// Returns true if the offset is `*stride` times the linear index.
bool IsLinear(const Axis& axis, size_t operand, int64_t* stride);

// How the elements of a pack lie.
enum class PackKind : uint8_t {
  kSame,         // one element for all
  kConsecutive,  // one vector access, if the operand itself is aligned
  kStep,         // a constant step
  kScattered,    // each has an offset of its own
};

// Returns how packs of `pack` elements of `axis` at multiples of `pack` lie. `other` is the other axis, which adds
// constants to the offsets.
PackKind PackKindOf(const Axis& axis, const Axis& other, size_t operand, int64_t pack);

// Returns the step between the elements of a pack of kind kSame, kConsecutive or kStep.
int64_t StepOf(const Axis& axis, size_t operand);

// Text of index arithmetic in uint32 or uint64.
class IndexText {
 public:
  explicit IndexText(bool wide) : wide_(wide) {}

  std::string Literal(int64_t value) const;
  // Returns lines that declare those of the coordinates <index>_0, <index>_1, ... of `index` in the axis that the
  // offsets of `operands` use.
  std::vector<std::string> Coordinates(const Axis& axis, absl::Span<const size_t> operands,
                                       absl::string_view index) const;
  // Returns the operand's offset for an index, whose coordinates are declared; "" for 0. Is a sum.
  std::string Offset(const Axis& axis, size_t operand, absl::string_view index) const;
  absl::string_view type() const { return wide_ ? "uint64" : "uint32"; }

 private:
  bool wide_;
};

// Returns the sum of two texts, of which either may be empty.
std::string SumText(absl::string_view a, absl::string_view b);

}  // namespace cotan::cuda::expr

#endif  // COTAN_KERNELS_CUDA_EXPR_GEOMETRY_H_
