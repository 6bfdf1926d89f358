// SPDX-License-Identifier: Apache-2.0

// Limits of random programs. Excluded are programs whose result depends on the order of eager's
// loops, programs of which eager loses or mixes up the grad_fn, and a few that Cotan does not
// support; docs/conformance.md lists them.
#ifndef COTAN_TESTING_CONFORMANCE_FUZZ_PROGRAM_LIMITS_H_
#define COTAN_TESTING_CONFORMANCE_FUZZ_PROGRAM_LIMITS_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/function.h>

#include <cstdint>
#include <map>
#include <vector>

#include "testing/conformance/fuzz/random_ops.h"
#include "testing/conformance/fuzz/random_program.h"

namespace cotan::conformance {

// Tracks the values of a program as it runs.
class ProgramLimits {
 public:
  // Records the current values. To be called before the first step and after each step.
  void Note(const ProgramValues& values);

  // Returns whether eager defines the result of `step` on the values last passed to Note(). Uses
  // the current grad mode, which is that of the program's call.
  bool Allow(const RandomStep& step) const;

  // Returns whether `value` may be an output, or an input after the call.
  bool AllowAtEnd(int value) const;

 private:
  struct Known {
    c10::intrusive_ptr<torch::autograd::Node> node;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
  };

  // Returns whether `tensor` is a computed tensor with a metadata mutation under no_grad: its
  // gradient would have the new sizes, but its grad_fn expects the previous ones.
  bool IsDisplaced(const at::Tensor& tensor) const;
  // Returns whether `tensor` shares storage with a displaced tensor.
  bool IsInDisplaced(const at::Tensor& tensor) const;
  bool HasViews(const at::Tensor& tensor) const;
  bool IsInput(const at::Tensor& tensor) const;
  bool AllowWrite(const RandomStep& step) const;
  bool AllowMove(const RandomStep& step) const;
  bool AllowSet(const RandomStep& step, bool with_grad) const;

  std::vector<at::Tensor> inputs_;
  ProgramValues values_;
  std::map<const void*, Known> known_;  // computed tensors as their nodes know them
};

// Returns whether eager runs the program and its backward, and defines all results.
bool IsDefined(const RandomProgram& program);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_FUZZ_PROGRAM_LIMITS_H_
