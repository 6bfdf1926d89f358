// SPDX-License-Identifier: Apache-2.0

#include "testing/e2e/philox_dropout.h"

#include <ATen/ATen.h>

#include <optional>

#include "base/philox.h"

namespace cotan::testing {
namespace {

uint64_t stream_seed = 0;
uint64_t next_block = 0;

// Replaces aten::bernoulli_, with which dropout makes its mask: elements are 1 with probability `keep`.
at::Tensor& PhiloxBernoulli(at::Tensor& self, double keep, std::optional<at::Generator> generator) {
  const auto count = static_cast<uint64_t>(self.numel());
  at::Tensor mask = at::empty(self.sizes(), at::kFloat);
  float* out = mask.mutable_data_ptr<float>();
  const float drop = static_cast<float>(1 - keep);
  for (uint64_t i = 0; i < count; ++i) {
    const uint32_t bits = Philox(stream_seed, next_block + i / 4).lane[i % 4];
    out[i] = UniformFloat(bits) >= drop ? 1.0f : 0.0f;
  }
  next_block += PhiloxBlocks(count);
  return self.copy_(mask);
}

}  // namespace

PhiloxDropout::PhiloxDropout() : override_(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__) {
  override_.impl("bernoulli_.float", PhiloxBernoulli);
}

PhiloxDropout::~PhiloxDropout() = default;

void PhiloxDropout::Seek(uint64_t seed, uint64_t offset) {
  stream_seed = seed;
  next_block = offset;
}

uint64_t PhiloxDropout::offset() const { return next_block; }

}  // namespace cotan::testing
