// SPDX-License-Identifier: Apache-2.0

// A table that is a program of its own: with its own declarations, a static
// build_table() and a main(). conformance_binary makes a runner of it.
#include <ATen/ATen.h>

#include <cstdint>
#include <functional>
#include <vector>

static std::vector<at::Tensor> g_roots;

static at::Tensor leaf(at::IntArrayRef shape) {
  g_roots.push_back(at::arange(6, at::kFloat).view(shape).clone().requires_grad_(true));
  return g_roots.back();
}

struct ConfCase {
  const char* name;
  const char* group;
  std::function<std::vector<at::Tensor>()> inputs;
  std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)> f;
  bool grad;
  std::vector<int> loss_outs;
  bool loss_inputs;
  const char* tangent;
  bool rng;
  bool after_bw;
};

static std::vector<ConfCase> build_table() {
  std::vector<ConfCase> t;
  t.push_back({"row_is_doubled",
               "views",
               []() -> std::vector<at::Tensor> {
                 return {leaf({2, 3}).clone()};
               },
               [](std::vector<at::Tensor> in) -> std::vector<at::Tensor> {
                 in[0][1].mul_(2);
                 return {in[0].t(), in[0].sin()};
               },
               true,
               {-1},
               true,
               "contig",
               false,
               false});
  t.push_back({"sum",
               "plain",
               []() -> std::vector<at::Tensor> { return {leaf({6})}; },
               [](std::vector<at::Tensor> in) -> std::vector<at::Tensor> { return {in[0].sum()}; },
               true,
               {-1},
               true,
               "contig",
               false,
               false});
  return t;
}

int main() {
  for (const ConfCase& c : build_table()) c.f(c.inputs());
}
