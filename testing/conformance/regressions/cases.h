// SPDX-License-Identifier: Apache-2.0

// Cases that the corpus does not have, by subject; table.cc joins them to one table.
#ifndef COTAN_TESTING_CONFORMANCE_REGRESSIONS_CASES_H_
#define COTAN_TESTING_CONFORMANCE_REGRESSIONS_CASES_H_

#include <ATen/ATen.h>

#include <functional>
#include <utility>
#include <vector>

#include "testing/conformance/harness/case_flags.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

// Returns a case of this table, or of a table that is compared with eager alone.
inline ConfCase Case(const char* name, std::function<Tensors()> inputs, std::function<Tensors(Tensors)> f) {
  return Case(name, "own", std::move(inputs), std::move(f));
}

inline Tensors Leaf() { return {leaf(0, {2, 3})}; }
inline Tensors Computed() { return {leaf(0, {2, 3}).clone()}; }
inline Tensors Buffer() { return {buf(0, {2, 3})}; }
inline Tensors Square() { return {leaf(0, {3, 3}).clone()}; }
inline Tensors TwoLeaves() { return {leaf(0, {2, 3}), leaf(1, {2, 3})}; }
inline Tensors TwoComputed() { return {leaf(0, {2, 3}).clone(), leaf(1, {2, 3}).clone()}; }
inline Tensors BufferAndLeaf() { return {buf(0, {2, 3}), leaf(1, {2, 3})}; }
inline Tensors Complex() { return {leaf(0, {3}, at::kComplexFloat)}; }
inline Tensors ComplexComputed() { return {leaf(0, {3}, at::kComplexFloat).clone()}; }
inline Tensors ComplexBuffer() { return {buf(0, {3}, at::kComplexFloat)}; }

inline at::Tensor Flat(const at::Tensor& x) { return x.view(at::IntArrayRef({-1})); }

// Tables, one in each *_cases.cc.
std::vector<ConfCase> RequiresGradCases();  // requires_grad_ on inputs and results
std::vector<ConfCase> ViewCases();          // views in unusual order
std::vector<ConfCase> ConjugateCases();
std::vector<ConfCase> NumberCases();        // results other than tensors
std::vector<ConfCase> MutationCases();      // writes in unusual order
std::vector<ConfCase> SequenceCases();      // several views and writes in one function
std::vector<ConfCase> SharedInputCases();   // inputs in the same memory
std::vector<ConfCase> OpCases();            // ops that write, in all their forms
std::vector<ConfCase> OutputCases();        // outputs, and the tensors that they are views of
std::vector<ConfCase> SharedMemoryCases();  // inputs in the same memory
std::vector<ConfCase> StorageCases();       // set_, resize_, sizes
std::vector<ConfCase> ElementCases();       // dtypes, complex numbers, tensors of few elements
std::vector<ConfCase> ModeCases();          // gradients on and off, detached, custom, random
std::vector<ConfCase> DerivativeCases();    // saved values, gradients inside the function, kinds of results

std::vector<ConfCase> WrittenInputCases();       // further data and metadata mutations of inputs
std::vector<ConfCase> InputAliasCases();         // outputs that are views of inputs
std::vector<ConfCase> IntermediateAliasCases();  // outputs that are views of intermediates
std::vector<ConfCase> MergedInputCases();        // further inputs in the same memory
std::vector<ConfCase> CombinationCases();        // combinations of the above
std::vector<ConfCase> MetadataMutationCases();   // metadata mutations of inputs, some of them restored
std::vector<ConfCase> TrainingCases();           // tangents, normalization, optimizers, custom functions

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_REGRESSIONS_CASES_H_
