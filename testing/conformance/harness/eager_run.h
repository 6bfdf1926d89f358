// A case in LibTorch eager: the oracle.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_EAGER_RUN_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_EAGER_RUN_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "testing/conformance/harness/call_facts.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

// Fresh inputs of a case, and the leaves behind them that gradients are taken
// with respect to.
struct CaseInputs {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> roots;
  // Whether they come in the order in which they were made.
  bool roots_are_in_order = true;
};

// The leaves that `tensors` are, or were computed from, each once.
std::vector<at::Tensor> LeavesBehind(const std::vector<at::Tensor>& tensors);

// Whether it is a view that was made while gradients were disabled.
bool MadeWithoutGrad(const at::Tensor& tensor);

// Roots are those that leaf() noted; of a table with a leaf() of its own, the
// leaves that the inputs are, or were computed from.
CaseInputs MakeInputs(const ConfCase& c);

// State of the Philox generator that random ops draw from.
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

// Calls the function on fresh inputs. Random ops draw what a compiled program
// with this state draws; without a state, from LibTorch's generator with the
// corpus's seed. Throws what the function throws.
EagerRun RunEager(const ConfCase& c, const std::optional<PhiloxState>& rng);

// Which tensors the loss is made of: output i is i, input i is i plus the
// number of outputs.
std::vector<int> LossTerms(const ConfCase& c, const EagerRun& run);
// The gradient of the loss with respect to term `term`, which is like `tensor`.
at::Tensor TangentOf(const at::Tensor& tensor, int term, const std::string& layout);
// The tensor that a term stands for.
const at::Tensor& TermOf(const EagerRun& run, int term);

// Gradients of all roots. Throws what the backward throws.
GradFacts BackwardEager(const ConfCase& c, const EagerRun& run);

TensorFacts FactsOf(const at::Tensor& tensor);
// Elements in row-major order; two for each complex one.
std::vector<double> ValuesOf(const at::Tensor& tensor);
std::string DTypeText(at::ScalarType type);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_EAGER_RUN_H_
