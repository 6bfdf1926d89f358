// SPDX-License-Identifier: Apache-2.0

// Draws of the program that is traced, each from a slice of its own of the session's random numbers
// (cotan::random_uniform). Sizes in elements; strides are contiguous.
#ifndef COTAN_AOT_DECOMPOSITIONS_RANDOM_DRAWS_H_
#define COTAN_AOT_DECOMPOSITIONS_RANDOM_DRAWS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace torch {
class Library;
}

namespace cotan::aot {

// Returns f32 in [0, 1), with 24 random bits each.
at::Tensor Draw(at::IntArrayRef sizes);
// Returns values in [from, to).
at::Tensor Uniform(at::IntArrayRef sizes, at::ScalarType dtype, double from = 0, double to = 1);
// Returns standard normal values, by the Box-Muller transform of two draws per element.
at::Tensor Normal(at::IntArrayRef sizes, at::ScalarType dtype);
// Returns integers in [low, high). Reports `op` as unsupported if the range is wider than 2^48.
at::Tensor Integers(at::IntArrayRef sizes, at::ScalarType dtype, int64_t low, int64_t high,
                    const char* op = "aten.randint");
// Returns 1 with probability p, else 0.
at::Tensor Bernoulli(at::IntArrayRef sizes, at::ScalarType dtype, double p);

// Defines cotan::random_uniform.
void DefineRandomUniform(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_RANDOM_DRAWS_H_
