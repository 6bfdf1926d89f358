// SPDX-License-Identifier: Apache-2.0

// Runs a case in LibTorch eager, the oracle.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_EAGER_RUN_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_EAGER_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "testing/conformance/harness/call_facts.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

// Fresh inputs of a case, and the roots: the leaves that gradients are computed for.
struct CaseInputs {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> roots;
  // True if `roots` are in the order of their creation.
  bool roots_are_in_order = true;
};

// Returns the leaves that `tensors` are or were computed from, each once.
std::vector<at::Tensor> LeavesBehind(const std::vector<at::Tensor>& tensors);

// Returns whether `tensor` is a view that was made while gradients were disabled.
bool MadeWithoutGrad(const at::Tensor& tensor);

// Returns new inputs. The roots are the tensors that leaf() made; for a table with its own leaf(),
// the leaves that the inputs are or were computed from.
CaseInputs MakeInputs(const ConfCase& c);

// State of the Philox generator of random ops.
struct PhiloxState {
  int64_t seed = 0;
  int64_t offset = 0;
};

struct EagerRun {
  CaseInputs in;
  std::vector<at::Tensor> outputs;
  CallFacts facts;
  std::vector<bool> input_changed;  // by input: whether elements or geometry did
};

// Calls the function on fresh inputs. With a state, random ops draw the numbers of a compiled
// program with this state; without one, they draw from LibTorch's generator with the corpus's seed.
// Throws what the function throws.
EagerRun RunEager(const ConfCase& c, const std::optional<PhiloxState>& rng);

// Returns the terms of the loss: i for output i, i plus the number of outputs for input i.
std::vector<int> LossTerms(const ConfCase& c, const EagerRun& run);
// Returns the gradient of the loss with respect to term `term`, with the sizes and dtype of
// `tensor`.
at::Tensor TangentOf(const at::Tensor& tensor, int term, const std::string& layout);
// Returns the tensor of a term.
const at::Tensor& TermOf(const EagerRun& run, int term);

// Returns the gradients of all roots. Throws what the backward throws.
GradFacts BackwardEager(const ConfCase& c, const EagerRun& run);

TensorFacts FactsOf(const at::Tensor& tensor);
// Returns the elements in row-major order; two values for each complex element.
std::vector<double> ValuesOf(const at::Tensor& tensor);
std::string DTypeText(at::ScalarType type);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_EAGER_RUN_H_
