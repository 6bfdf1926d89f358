// What the stages of a call plan do, in words.
#ifndef COTAN_RUNTIME_FUNCTION_CALL_PLAN_TEXT_H_
#define COTAN_RUNTIME_FUNCTION_CALL_PLAN_TEXT_H_

#include <string>
#include <vector>

#include "runtime/function/call_plan.h"

namespace cotan {

// Lists, separated by commas; empty if there is nothing to tell. Thread-safe, if
// nobody changes the plan, which outlives the object.
class CallPlanText {
 public:
  explicit CallPlanText(const CallPlan& plan) : plan_(plan) {}

  // Name of an input of the caller, of several, of a program argument: "x",
  // "x, y", "base of x, y".
  const std::string& Input(int input) const;
  std::string Inputs(const std::vector<int>& inputs) const;
  std::string Argument(int argument) const;

  // Arguments and outputs of wrapper types.
  std::string ArgumentWrappers() const;
  std::string OutputWrappers() const;
  // "x is y, z is not w".
  std::string Duplicates() const;
  // "f32[6]{1} is the base of x, y".
  std::string Bases() const;
  // The arguments that the backward has gradients of.
  std::string Gradients() const;
  // What the call changes of its arguments. `only_tracked`: contents that get a
  // history.
  std::string WriteBacks(bool only_tracked) const;
  // "output 0 new, output 1 a view of x".
  std::string Outputs() const;

 private:
  const CallPlan& plan_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CALL_PLAN_TEXT_H_
