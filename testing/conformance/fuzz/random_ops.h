// SPDX-License-Identifier: Apache-2.0

// Ops of random programs.
#ifndef COTAN_TESTING_CONFORMANCE_FUZZ_RANDOM_OPS_H_
#define COTAN_TESTING_CONFORMANCE_FUZZ_RANDOM_OPS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/types/span.h"

namespace cotan::conformance {

enum class RandomOpKind {
  kComputation,    // a new tensor, or (reshape, contiguous, conj, ...) the argument or a view of it
  kView,           // a view
  kAlias,          // the same memory, without grad_fn
  kWrite,          // writes elements of its first argument, and returns it
  kMetadataWrite,  // gives its first argument other dimensions, and returns it
  kStateWrite,     // gives its first argument another place in memory or in the graph, and returns it
  kDraw,           // draws random numbers; one whose name ends in "_" writes them into its argument
};

struct RandomOp {
  const char* name;
  int num_args;
  // Draws the numeric arguments for this first argument; nullopt: the op does not take such a
  // tensor.
  std::optional<std::vector<int64_t>> (*numbers)(const at::Tensor& tensor, std::mt19937_64& random);
  // Throws what LibTorch throws.
  at::Tensor (*run)(const std::vector<at::Tensor>& args, const std::vector<int64_t>& numbers);
};

absl::Span<const RandomOp> OpsOf(RandomOpKind kind);

struct KnownOp {
  RandomOpKind kind;
  const RandomOp& op;
};

// Returns the op of this name, which has to exist.
KnownOp FindOp(const std::string& name);

// Returns whether the op writes elements of its first argument.
bool WritesElements(const KnownOp& op);

// Returns whether the result may be a view of the first argument.
bool MayView(const KnownOp& op);

// Returns a number from 0 to bound - 1.
int64_t Below(int64_t bound, std::mt19937_64& random);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_FUZZ_RANDOM_OPS_H_
