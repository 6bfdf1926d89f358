// SPDX-License-Identifier: Apache-2.0

// CallPlanText: descriptions of the stages of a call plan, for Function::ToString().
#ifndef COTAN_RUNTIME_FUNCTION_CALL_PLAN_TEXT_H_
#define COTAN_RUNTIME_FUNCTION_CALL_PLAN_TEXT_H_

#include <string>
#include <vector>

#include "runtime/function/call_plan.h"

namespace cotan {

// Describes parts of a plan as comma-separated lists, empty if there are no entries. The plan must outlive the object.
// Thread-safe while the plan does not change.
class CallPlanText {
 public:
  explicit CallPlanText(const CallPlan& plan) : plan_(plan) {}

  // Return the name of an input, of several inputs, and of a program argument: "x", "x, y", "base of x, y".
  const std::string& Input(int input) const;
  std::string Inputs(const std::vector<int>& inputs) const;
  std::string Argument(int argument) const;

  // Return the arguments and the outputs of wrapper types: "q Quantized{data: flat 0}", "output 0 ...".
  std::string ArgumentWrappers() const;
  std::string OutputWrappers() const;
  // Returns the pairs of duplicates and of inputs that must not alias: "x is y, z is not w".
  std::string Duplicates() const;
  // Returns the synthetic bases: "f32[6]{1} is the base of x, y".
  std::string Bases() const;
  // Returns the program arguments whose gradients the backward returns.
  std::string Gradients() const;
  // Returns the mutations of arguments. `only_tracked`: only data mutations that give the argument a grad_fn.
  std::string WriteBacks(bool only_tracked) const;
  // Returns the kind of each output: "output 0 new, output 1 a view of x".
  std::string Outputs() const;

 private:
  const CallPlan& plan_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CALL_PLAN_TEXT_H_
