// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/op_argument.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace cotan::aot::pt2 {
namespace {

c10::IValue Convert(const Argument& argument, const char* op, const char* overload, const char* name,
                    const Environment& values = {}) {
  const c10::FunctionSchema& schema = c10::Dispatcher::singleton().findSchemaOrThrow(op, overload).schema();
  return ToOpArgument(argument, schema.arguments()[static_cast<size_t>(*schema.argumentIndexWithName(name))], values);
}

std::vector<Number> Ints(std::vector<int64_t> values) { return {values.begin(), values.end()}; }

TEST(OpArgumentTest, AnIntegerForAFloatBecomesOne) {
  EXPECT_EQ(Convert(int64_t{1}, "aten::dropout", "", "p").toDouble(), 1.0);
  EXPECT_TRUE(Convert(int64_t{1}, "aten::add", "Tensor", "alpha").isInt());
}

TEST(OpArgumentTest, ANumberForATensorBecomesAWrappedNumber) {
  const at::Tensor number = Convert(0.5, "aten::add", "Tensor", "other").toTensor();
  EXPECT_EQ(number.item<double>(), 0.5);
  EXPECT_TRUE(number.unsafeGetTensorImpl()->is_wrapped_number());
}

TEST(OpArgumentTest, ListsTakeTheirMembersFromTheEnvironment) {
  const Environment values = {{"s", 7}, {"x", at::ones({2})}};
  const std::vector<Number> sizes = {Name{"s"}, int64_t{3}};
  EXPECT_EQ(Convert(sizes, "aten::view", "", "size", values).toIntVector(), (std::vector<int64_t>{7, 3}));
  EXPECT_EQ(Convert(Tensors{Name{"x"}, Name{"x"}}, "aten::cat", "", "tensors", values).toTensorVector().size(), 2u);
  const auto indices = Convert(Tensors{std::nullopt, Name{"x"}}, "aten::index", "Tensor", "indices", values);
  EXPECT_FALSE(indices.toOptionalTensorVector()[0].has_value());
  EXPECT_TRUE(indices.toOptionalTensorVector()[1].has_value());
}

TEST(OpArgumentTest, OneNumberFillsAListOfFixedLength) {
  EXPECT_EQ(Convert(int64_t{2}, "aten::conv2d", "", "stride").toIntVector(), (std::vector<int64_t>{2, 2}));
  EXPECT_EQ(Convert(Ints({1, 2}), "aten::conv2d", "", "stride").toIntVector(), (std::vector<int64_t>{1, 2}));
}

TEST(OpArgumentTest, DevicesBecomeTheCpu) {
  EXPECT_EQ(Convert(Device{"cuda"}, "aten::to", "device", "device").toDevice(), at::Device(at::kCPU));
  EXPECT_THROW(Convert(Device{"meta"}, "aten::to", "device", "device"), std::invalid_argument);
}

TEST(OpArgumentTest, EnumsOfTheSchemaBecomeLibTorchs) {
  EXPECT_EQ(Convert(DType::kFloat64, "aten::to", "device", "dtype").toScalarType(), at::kDouble);
  EXPECT_EQ(Convert(MemoryFormat{2}, "aten::clone", "", "memory_format").toMemoryFormat(),
            at::MemoryFormat::ChannelsLast);
  EXPECT_THROW(Convert(Layout{1}, "aten::zeros", "", "layout"), std::invalid_argument);
  // LibTorch would take any integer and index a table by it.
  EXPECT_THROW(Convert(int64_t{1000}, "aten::to", "device", "dtype"), std::invalid_argument);
  EXPECT_THROW(Convert(Name{"n"}, "aten::to", "device", "dtype", {{"n", 1000}}), std::invalid_argument);
  EXPECT_THROW(Convert(DType::kFloat64, "aten::clone", "", "memory_format"), std::invalid_argument);
}

TEST(OpArgumentTest, ThrowsWhereItDoesNotFit) {
  EXPECT_THROW(Convert(Name{"nobody"}, "aten::relu", "", "self"), std::invalid_argument);
  EXPECT_THROW(Convert(Tensors{}, "aten::relu", "", "self"), std::invalid_argument);
  EXPECT_THROW(Convert(std::vector<Number>{0.5}, "aten::view", "", "size"), std::invalid_argument);
  EXPECT_THROW(Convert(Unsupported{"as_custom_obj"}, "aten::relu", "", "self"), std::invalid_argument);
}

}  // namespace
}  // namespace cotan::aot::pt2
