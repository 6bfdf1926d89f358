// SPDX-License-Identifier: Apache-2.0

// Programs that keep many values, and a function that runs them.
#ifndef COTAN_AOT_MEMORY_TEST_PROGRAMS_H_
#define COTAN_AOT_MEMORY_TEST_PROGRAMS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/session.h"
#include "runtime/testing/program_builder.h"

namespace cotan::aot {

// Returns the sizes of f32[1024], which has 4 KiB.
inline const std::vector<std::string>& KeptSizes() {
  static const auto& sizes = *new std::vector<std::string>{"1024"};
  return sizes;
}

// Adds layers to a method, with a random draw in the middle. The method has the input x, and
// advances the generator, which is a state. Returns x and the results of the layers, which
// Backward() reads in the opposite order.
inline std::vector<uint32_t> AddLayers(int depth, cotan::testing::ProgramBuilder& program,
                                       cotan::testing::MethodBuilder& m) {
  using cotan::testing::ExprBuilder;
  const uint32_t rng = program.AddState("rng", serialization::State::RNG, DType::kInt64, {"2"}, 0);
  std::vector<uint32_t> layers = {m.Input("x", DType::kFloat32, KeptSizes())};
  const uint32_t generator = m.Read(rng, DType::kInt64, {"2"});
  for (int i = 0; i < depth; ++i) {
    if (i == depth / 2) {
      ExprBuilder b(std::vector<int64_t>{1024});
      const int loaded = b.Input(0, DType::kFloat32);
      b.Output(b.Add(loaded, b.Random(1)));
      layers.push_back(m.AddValue(DType::kFloat32, KeptSizes()));
      m.AddOp(b.Build(), {layers[layers.size() - 2], generator}, {layers.back()});
      continue;
    }
    layers.push_back(m.Pointwise(KeptSizes(), {layers.back()}, [](ExprBuilder& b) {
      return b.Apply(serialization::FN_SIN, {b.Mul(0, b.Constant(DType::kFloat32, 1.5))});
    }));
  }
  m.Update(rng,
           m.Pointwise({"2"}, {generator}, [](ExprBuilder& b) { return b.Add(0, b.Constant(DType::kInt64, 256)); }));
  return layers;
}

// Adds gradient * layer + 1 for each layer, from the last to the first, and returns the result.
inline uint32_t Backward(uint32_t gradient, const std::vector<uint32_t>& layers, cotan::testing::MethodBuilder& m) {
  for (size_t i = layers.size(); i-- > 1;) {
    gradient = m.Pointwise(KeptSizes(), {gradient, layers[i]}, [&](cotan::testing::ExprBuilder& b) {
      return b.Add(b.Mul(0, 1), b.Constant(DType::kFloat32, 1));
    });
  }
  return gradient;
}

// Returns the method step(x) -> gradient, which keeps `depth` values of 4 KiB.
inline cotan::testing::ProgramBuilder DeepStep(int depth) {
  cotan::testing::ProgramBuilder program;
  cotan::testing::MethodBuilder m = program.AddMethod("step");
  const std::vector<uint32_t> layers = AddLayers(depth, program, m);
  m.Output("gradient", Backward(layers.back(), layers, m));
  return program;
}

// Returns the methods forward(x) -> last layer, with `depth` saved values of 4 KiB, and
// backward(tangent) -> gradient.
inline cotan::testing::ProgramBuilder DeepPair(int depth) {
  using cotan::testing::MethodBuilder;
  cotan::testing::ProgramBuilder program;
  MethodBuilder forward = program.AddMethod("forward");
  const std::vector<uint32_t> layers = AddLayers(depth, program, forward);
  forward.Output("last", forward.Pointwise(KeptSizes(), {layers.back()},
                                           [](cotan::testing::ExprBuilder& b) { return b.Add(0, 0); }));
  for (size_t i = 1; i < layers.size(); ++i) forward.proto().add_outputs(layers[i]);
  forward.proto().set_num_saved(static_cast<uint32_t>(depth));
  forward.proto().set_backward_method("backward");

  MethodBuilder backward = program.AddMethod("backward");
  std::vector<uint32_t> taken = {0};
  for (int i = 0; i < depth; ++i) taken.push_back(backward.Input("saved", DType::kFloat32, KeptSizes()));
  const uint32_t tangent = backward.Input("tangent", DType::kFloat32, KeptSizes());
  backward.Output("gradient", Backward(tangent, taken, backward));
  return program;
}

// Returns the gradients of two steps in one session. The first method takes x, each other method
// the results of the previous one.
inline std::vector<float> RunTwice(cotan::testing::ProgramBuilder program, const std::vector<std::string>& methods) {
  Session session = *Session::Create(program.Load(), {.kernels = &cotan::testing::TestKernels(), .threads = 1});
  std::vector<float> x(1024);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) / 512 - 1;
  std::vector<float> gradients;
  for (int step = 0; step < 2; ++step) {
    std::vector<Tensor> tensors = {*Tensor::From<float>(x, {1024})};
    for (const std::string& method : methods) {
      auto results = session.Run(method, tensors);
      EXPECT_TRUE(results.ok()) << results.status();
      tensors = *std::move(results);
    }
    const std::vector<float> values = *tensors[0].ToVector<float>();
    gradients.insert(gradients.end(), values.begin(), values.end());
  }
  return gradients;
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_TEST_PROGRAMS_H_
