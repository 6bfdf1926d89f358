// SPDX-License-Identifier: Apache-2.0

#include "planning/kernel_key.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Op;

// A request with its operands.
struct Request {
  Op op;
  std::vector<TensorSpec> inputs;
  std::vector<TensorSpec> outputs;
  bool guarded = false;

  std::string Key() const {
    const KernelRequest request = {
        .op = op, .inputs = inputs, .outputs = outputs, .symbols = {}, .guarded_outputs = guarded};
    return KernelKey({&request, 1});
  }
};

TensorSpec Spec(const DimVector& sizes, const DimVector& strides, DType dtype = DType::kFloat32) {
  return {dtype, {sizes, strides, 0}};
}

Request Product() {
  Request request;
  request.op.mutable_matmul();
  request.op.add_inputs(3);
  request.op.add_inputs(7);
  request.op.add_outputs(8);
  request.op.set_source("aten.mm layer1");
  request.inputs = {Spec({2, 3}, {3, 1}), Spec({3, 4}, {4, 1})};
  request.outputs = {Spec({2, 4}, {4, 1})};
  return request;
}

TEST(KernelKeyTest, ValuesAndOriginDoNotMatter) {
  Request other = Product();
  other.op.set_inputs(0, 30);
  other.op.set_outputs(0, 31);
  other.op.set_source("aten.mm layer2");
  EXPECT_EQ(other.Key(), Product().Key());
}

TEST(KernelKeyTest, AttributesLayoutsAndDtypesMatter) {
  const std::vector<std::function<void(Request&)>> changes = {
      [](Request& r) { r.op.mutable_copy(); },
      [](Request& r) { r.op.mutable_gather()->set_dim(1); },
      [](Request& r) {
        r.inputs[0].layout.strides = {1, 2};
      },
      [](Request& r) { r.inputs[1].dtype = DType::kBFloat16; },
      [](Request& r) {
        r.outputs[0].layout.sizes = {2, 5};
      },
      [](Request& r) {
        r.outputs[0].layout.strides = {8, 2};
      },
      [](Request& r) { r.inputs.push_back(r.outputs[0]); },
      [](Request& r) { std::swap(r.inputs, r.outputs); },
      [](Request& r) { r.guarded = true; },
  };
  std::vector<std::string> keys = {Product().Key()};
  for (const auto& change : changes) {
    Request changed = Product();
    change(changed);
    for (const std::string& key : keys) EXPECT_NE(changed.Key(), key) << keys.size();
    keys.push_back(changed.Key());
  }
}

TEST(KernelKeyTest, RequestsOfAGroupHaveAnOrder) {
  const Request a = Product();
  Request b = Product();
  b.op.mutable_copy();
  const KernelRequest first = {.op = a.op, .inputs = a.inputs, .outputs = a.outputs, .symbols = {}};
  const KernelRequest second = {.op = b.op, .inputs = b.inputs, .outputs = b.outputs, .symbols = {}};
  const std::vector<KernelRequest> both = {first, second};
  const std::vector<KernelRequest> reversed = {second, first};
  EXPECT_NE(KernelKey(both), KernelKey(reversed));
  EXPECT_NE(KernelKey(both), KernelKey({&first, 1}));
}

}  // namespace
}  // namespace cotan
