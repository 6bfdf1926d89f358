#include "testing/conformance/own_cases.h"

namespace cotan::conformance {
namespace {

Tensors ComputedTwice() {
  const at::Tensor x = leaf(0, {2, 3}).clone();
  return {x, x};
}
Tensors OneLeaf() { return {leaf(0, {2, 3})}; }
Tensors OneComputed() { return {leaf(0, {4}).clone()}; }
Tensors BufferTwice() {
  const at::Tensor x = buf(0, {1, 3});
  return {x, x};
}

}  // namespace

std::vector<ConfCase> MovedInputCases() {
  return {
      Case("pair_moved_there_and_back", BufferTwice,
           [](Tensors in) -> Tensors {
             in[1].t_();
             const at::Tensor y = in[0] * 2;
             in[0].t_();
             return {y, in[1] * in[0]};
           }),
      Case("pair_moved_through_one_and_back_through_the_other", BufferTwice,
           [](Tensors in) -> Tensors {
             in[0].unsqueeze_(0);
             in[1].squeeze_(0);
             return {};
           }),
      Case("computed_pair_moved_there_and_back", ComputedTwice,
           [](Tensors in) -> Tensors {
             in[1].t_();
             const at::Tensor y = in[0].sin();
             in[0].t_();
             return {y, in[1]};
           }),
      WithoutGrad(Case("pair_moved_there_and_back_without_gradients", ComputedTwice,
                       [](Tensors in) -> Tensors {
                         in[1].t_();
                         const at::Tensor y = in[0].sin();
                         in[0].t_();
                         return {y};
                       })),
      Case("detached_pair", ComputedTwice,
           [](Tensors in) -> Tensors {
             in[0].detach_();
             return {in[1] * 2};
           }),
      Case(
          "buffer_view_moved_and_its_base_written_with_a_leaf",
          [] {
            const at::Tensor b = buf(1, {6});
            return Tensors{b.narrow(0, 3, 1), leaf(0, {6}).clone(), b};
          },
          [](Tensors in) -> Tensors {
            in[0].squeeze_(0);
            in[2].mul_(in[1]);
            return {};
          }),
      // The gradient has the sizes that the leaf has when it is used.
      Case("leaf_moved_used_and_moved_again", OneLeaf,
           [](Tensors in) -> Tensors {
             {
               const at::NoGradGuard no_grad;
               in[0].t_();
             }
             const at::Tensor y = at::cat({in[0], in[0]});
             {
               const at::NoGradGuard no_grad;
               in[0].unsqueeze_(0);
             }
             return {y};
           }),
      Case("leaf_moved_used_and_moved_back", OneLeaf,
           [](Tensors in) -> Tensors {
             {
               const at::NoGradGuard no_grad;
               in[0].unsqueeze_(0);
             }
             const at::Tensor y = in[0].sin();
             {
               const at::NoGradGuard no_grad;
               in[0].squeeze_(0);
             }
             return {y};
           }),
      WithoutGrad(Case("input_moved_with_gradients_in_a_call_without", OneComputed,
                       [](Tensors in) -> Tensors {
                         const at::AutoGradMode grad(true);
                         in[0].unsqueeze_(1);
                         return {in[0] * 2};
                       })),
  };
}

}  // namespace cotan::conformance
