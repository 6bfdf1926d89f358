// SPDX-License-Identifier: Apache-2.0

// Builds small programs with metadata, for tests of functions of Variables.
#ifndef COTAN_RUNTIME_TESTING_FUNCTION_BUILDER_H_
#define COTAN_RUNTIME_TESTING_FUNCTION_BUILDER_H_

#include <optional>
#include <string>
#include <vector>

#include "runtime/testing/program_builder.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::testing {

// Return the metadata of an input of the traced function, as it was at entry.
InputAliasInfo Plain();         // does not require grad
InputAliasInfo LeafInput();     // requires grad
InputAliasInfo NonLeafInput();  // computed from a leaf
// Returns `info` with a data mutation.
InputAliasInfo Mutated(InputAliasInfo info);

// Return the metadata of an output. A non-alias output that requires grad has a tangent.
OutputAliasInfo Fresh(bool requires_grad);
OutputAliasInfo AliasOf(OutputType type, int base, bool requires_grad, std::vector<ViewStep> steps = {});

// Returns a row-major f32 geometry.
TensorGeometry RowMajor(const std::vector<int64_t>& sizes);

// Sets the metadata of the traced function or of the program; facts.tangents may be empty. The test fails if
// the metadata is inconsistent.
void SetMetadata(MethodBuilder& method, const ViewAndMutationMetaFields& facts);
void SetProgramMetadata(MethodBuilder& method, const ViewAndMutationMetaFields& facts);

// Makes `backward` the backward of `forward`, whose last `num_saved` outputs are saved values; output i of
// the backward is the gradient of input gradient_inputs[i].
void Pair(MethodBuilder& forward, MethodBuilder& backward, int num_saved, const std::vector<uint32_t>& gradient_inputs);

// Add an f32 expression over values of equal sizes and return its result.
uint32_t Times(MethodBuilder& m, uint32_t a, uint32_t b);
uint32_t Times(MethodBuilder& m, uint32_t a, double factor);
uint32_t Plus(MethodBuilder& m, uint32_t a, uint32_t b);
uint32_t Plus(MethodBuilder& m, uint32_t a, double summand);

// Return programs with a forward "f" and its backward "b", over f32[2]:
//   f(x) = x * x, which saves x; metadata with deterministic = false
ProgramBuilder Square();
//   the same with a differentiable backward "g" of x and the tangent, whose backward is "gb"
ProgramBuilder SquareOfOrderTwo();
//   f(x) = (3 x) (3 x), which saves 3 x for the backward alone: the value is donated
ProgramBuilder TripledSquare();
//   f(x, y) = (2 x, 3 y)
ProgramBuilder TwoParts();
//   f(x) = x.mul_(2); return x + 1, where x is not a leaf
ProgramBuilder MutatesNonLeaf();

}  // namespace cotan::testing

#endif  // COTAN_RUNTIME_TESTING_FUNCTION_BUILDER_H_
