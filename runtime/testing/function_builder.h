// Builds small programs with metadata, for tests of functions of Variables.
#ifndef COTAN_RUNTIME_TESTING_FUNCTION_BUILDER_H_
#define COTAN_RUNTIME_TESTING_FUNCTION_BUILDER_H_

#include <optional>
#include <string>
#include <vector>

#include "runtime/testing/program_builder.h"
#include "serialization/metadata/view_and_mutation_facts.h"

namespace cotan::testing {

// An input of the traced function as it was at entry.
InputAliasInfo Plain();         // does not require grad
InputAliasInfo LeafInput();     // requires grad
InputAliasInfo NonLeafInput();  // computed from a leaf
// The same, its data being written.
InputAliasInfo Mutated(InputAliasInfo info);

// An output; fresh memory that requires grad has a tangent.
OutputAliasInfo Fresh(bool requires_grad);
OutputAliasInfo AliasOf(OutputType type, int base, bool requires_grad, std::vector<ViewStep> steps = {});

// An f32 geometry, row-major.
TensorGeometry RowMajor(const std::vector<int64_t>& sizes);

// Sets a method's metadata; facts.tangents need not be filled in. The test fails
// if they contradict each other.
void SetMetadata(MethodBuilder& method, const ViewAndMutationMetaFields& facts);
void SetProgramMetadata(MethodBuilder& method, const ViewAndMutationMetaFields& facts);

// Makes `backward` the backward of `forward`, whose last `num_saved` outputs are
// saved; outputs of the backward are gradients of these inputs.
void Pair(MethodBuilder& forward, MethodBuilder& backward, int num_saved, const std::vector<uint32_t>& gradient_inputs);

// f32 expressions over values of equal sizes.
uint32_t Times(MethodBuilder& m, uint32_t a, uint32_t b);
uint32_t Times(MethodBuilder& m, uint32_t a, double factor);
uint32_t Plus(MethodBuilder& m, uint32_t a, uint32_t b);
uint32_t Plus(MethodBuilder& m, uint32_t a, double summand);

// Programs with a forward "f" and its backward "b", over f32[2]:
//   f(x) = x * x, which saves x; traced without the demand for determinism
ProgramBuilder Square();
//   f(x, y) = (2 x, 3 y)
ProgramBuilder TwoParts();

}  // namespace cotan::testing

#endif  // COTAN_RUNTIME_TESTING_FUNCTION_BUILDER_H_
