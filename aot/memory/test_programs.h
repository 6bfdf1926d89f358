// Programs that keep much.
#ifndef COTAN_AOT_MEMORY_TEST_PROGRAMS_H_
#define COTAN_AOT_MEMORY_TEST_PROGRAMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/testing/program_builder.h"

namespace cotan::aot {

// f32[1024]: 4 KiB.
inline const std::vector<std::string>& KeptSizes() {
  static const auto& sizes = *new std::vector<std::string>{"1024"};
  return sizes;
}

// The layers of a "network", a random one in the middle: values that are read in
// the opposite order later. `generator` is a state.
inline std::vector<uint32_t> Layers(int depth, uint32_t x, uint32_t generator, cotan::testing::MethodBuilder& m) {
  std::vector<uint32_t> layers = {x};
  for (int i = 0; i < depth; ++i) {
    if (i == depth / 2) {
      cotan::testing::ExprBuilder b(std::vector<int64_t>{1024});
      const int loaded = b.Input(0, DType::kFloat32);
      b.Output(b.Add(loaded, b.Random(1)));
      layers.push_back(m.AddValue(DType::kFloat32, KeptSizes()));
      m.AddOp(b.Build(), {layers[layers.size() - 2], generator}, {layers.back()});
      continue;
    }
    layers.push_back(m.Pointwise(KeptSizes(), {layers.back()}, [](cotan::testing::ExprBuilder& b) {
      return b.Apply(serialization::FN_SIN, {b.Mul(0, b.Constant(DType::kFloat32, 1.5))});
    }));
  }
  return layers;
}

// What reads them: gradient * layer + 1, from the last one to the first.
inline uint32_t Backward(uint32_t gradient, const std::vector<uint32_t>& layers, cotan::testing::MethodBuilder& m) {
  for (size_t i = layers.size(); i-- > 1;) {
    gradient = m.Pointwise(KeptSizes(), {gradient, layers[i]}, [&](cotan::testing::ExprBuilder& b) {
      return b.Add(b.Mul(0, 1), b.Constant(DType::kFloat32, 1));
    });
  }
  return gradient;
}

// step(x) -> gradient, with the generator moved on; keeps `depth` values of 4 KiB.
inline cotan::testing::ProgramBuilder DeepStep(int depth) {
  using cotan::testing::MethodBuilder;
  cotan::testing::ProgramBuilder program;
  const uint32_t rng = program.AddState("rng", serialization::State::RNG, DType::kInt64, {"2"}, 0);
  MethodBuilder m = program.AddMethod("step");
  const uint32_t x = m.Input("x", DType::kFloat32, KeptSizes());
  const uint32_t generator = m.Read(rng, DType::kInt64, {"2"});
  const std::vector<uint32_t> layers = Layers(depth, x, generator, m);
  const uint32_t moved = m.Pointwise(
      {"2"}, {generator}, [](cotan::testing::ExprBuilder& b) { return b.Add(0, b.Constant(DType::kInt64, 256)); });
  m.Update(rng, moved);
  m.Output("gradient", Backward(layers.back(), layers, m));
  return program;
}

// forward(x) -> last layer, with `depth` saved values of 4 KiB, the generator moved
// on; backward(tangent) -> gradient.
inline cotan::testing::ProgramBuilder DeepPair(int depth) {
  using cotan::testing::MethodBuilder;
  cotan::testing::ProgramBuilder program;
  const uint32_t rng = program.AddState("rng", serialization::State::RNG, DType::kInt64, {"2"}, 0);
  MethodBuilder forward = program.AddMethod("forward");
  const uint32_t x = forward.Input("x", DType::kFloat32, KeptSizes());
  const uint32_t generator = forward.Read(rng, DType::kInt64, {"2"});
  const std::vector<uint32_t> layers = Layers(depth, x, generator, forward);
  forward.Update(rng, forward.Pointwise({"2"}, {generator}, [](cotan::testing::ExprBuilder& b) {
    return b.Add(0, b.Constant(DType::kInt64, 256));
  }));
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

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_TEST_PROGRAMS_H_
