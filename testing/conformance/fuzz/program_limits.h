// Which programs are compared with eager: what others compute depends on the order
// of its loops, or it forgets or mixes up their history. A few are left out as
// Cotan does not do them; docs/conformance.md has all.
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

// Watches the values of a program as it runs.
class ProgramLimits {
 public:
  // To be told after each step, and before the first one.
  void Note(const ProgramValues& values);

  // Whether eager defines what the step would do to the values that it was told
  // last. In the mode in which the program is called.
  bool Allow(const RandomStep& step) const;

  // Whether the program may end with this value.
  bool AllowAtEnd(int value) const;

 private:
  struct Known {
    c10::intrusive_ptr<torch::autograd::Node> node;
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
  };

  // Whether it is a computed tensor whose dimensions were moved without
  // gradients: those of its own would come in the new sizes to its old history.
  bool IsDisplaced(const at::Tensor& tensor) const;
  // Whether `tensor` is in the memory of such a one.
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

// Whether eager runs the program, backward included, and defines all it does.
bool IsDefined(const RandomProgram& program);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_FUZZ_PROGRAM_LIMITS_H_
