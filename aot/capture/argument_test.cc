// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/argument.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;

const c10::FunctionSchema& Schema(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).schema();
}

const c10::Argument& Declared(const c10::FunctionSchema& schema, const char* name) {
  return schema.arguments()[static_cast<size_t>(*schema.argumentIndexWithName(name))];
}

// Stands for the graph: every tensor is value 5.
absl::StatusOr<Argument> Convert(const c10::IValue& value, const c10::Argument& declared) {
  return ToArgument(value, declared, [](const at::Tensor&) { return Argument(Use{5}); });
}

TEST(ArgumentTest, NamesNodesByNamespaceNameAndOverload) {
  EXPECT_EQ(NodeOpName(Schema("aten::add", "Tensor")), "aten.add.Tensor");
  EXPECT_EQ(NodeOpName(Schema("aten::relu", "")), "aten.relu.default");
}

TEST(ArgumentTest, FindsOpsByTheNamesOfNodes) {
  for (const char* name : {"aten.add.Tensor", "aten.relu.default"}) {
    const auto op = FindOperator(name);
    ASSERT_TRUE(op.ok()) << op.status();
    EXPECT_EQ(NodeOpName(op->schema()), name);
  }
  EXPECT_EQ(FindOperator("aten.add.NoSuchOverload").status().message(), "LibTorch has no op aten.add.NoSuchOverload");
  EXPECT_EQ(FindOperator("relu").status().message(), "'relu' is not NAMESPACE.NAME.OVERLOAD");
}

TEST(ArgumentTest, ConvertsEachKindAndBack) {
  const at::Tensor tensor = at::ones({2});
  struct Case {
    const char* op;
    const char* overload;
    const char* argument;
    c10::IValue value;
    Argument expected;
  };
  const std::vector<Case> cases = {
      {"aten::relu", "", "self", tensor, Use{5}},
      {"aten::sum", "dim_IntList", "dim", std::vector<int64_t>{0, -1}, std::vector<SymInt>{0, -1}},
      {"aten::sum", "dim_IntList", "keepdim", true, true},
      {"aten::sum", "dim_IntList", "dtype", static_cast<int64_t>(at::kHalf), DType::kFloat16},
      {"aten::add", "Tensor", "alpha", 2, SymInt(2)},
      {"aten::add", "Tensor", "alpha", 2.5, 2.5},
      {"aten::dropout", "", "p", 0.25, 0.25},
      {"aten::gelu", "", "approximate", "tanh", std::string("tanh")},
      {"aten::upsample_nearest2d", "vec", "scale_factors", std::vector<double>{2.0, 0.5},
       std::vector<double>{2.0, 0.5}},
      {"aten::cat", "", "tensors", std::vector<at::Tensor>{tensor, tensor}, std::vector<Use>{{5}, {5}}},
  };
  for (const Case& c : cases) {
    const c10::Argument& declared = Declared(Schema(c.op, c.overload), c.argument);
    const auto argument = Convert(c.value, declared);
    ASSERT_TRUE(argument.ok()) << c.op << ": " << argument.status();
    EXPECT_TRUE(*argument == c.expected) << c.op << "." << c.argument;
    const auto back = ToIValue(*argument, declared, [&](ValueId) { return tensor; });
    ASSERT_TRUE(back.ok()) << c.op << ": " << back.status();
    EXPECT_EQ(back->tagKind(), c.value.tagKind()) << c.op << "." << c.argument;
  }
}

TEST(ArgumentTest, AbsentTensorsAreNone) {
  const c10::FunctionSchema& schema = Schema("aten::convolution", "");
  EXPECT_TRUE(*Convert(c10::IValue(), Declared(schema, "bias")) == Argument(None{}));
  EXPECT_TRUE(*Convert(at::Tensor(), Declared(schema, "bias")) == Argument(None{}));
  const c10::List<std::optional<at::Tensor>> list({std::nullopt, at::ones({2})});
  EXPECT_TRUE(*Convert(list, Declared(Schema("aten::index", "Tensor"), "indices")) ==
              Argument(std::vector<Use>{{kNoValue}, {5}}));
}

TEST(ArgumentTest, DropsLayoutDeviceAndMemoryFormat) {
  const c10::FunctionSchema& schema = Schema("aten::_to_copy", "");
  EXPECT_TRUE(*Convert(at::Device(at::kCPU), Declared(schema, "device")) == Argument(None{}));
  EXPECT_TRUE(*Convert(c10::IValue(at::MemoryFormat::ChannelsLast), Declared(schema, "memory_format")) ==
              Argument(None{}));
}

TEST(ArgumentTest, WrappedNumbersBecomeNumbers) {
  at::Tensor number = at::scalar_tensor(2.5, at::kDouble);
  number.unsafeGetTensorImpl()->set_wrapped_number(true);
  const c10::Argument& declared = Declared(Schema("aten::add", "Tensor"), "other");
  const auto argument = Convert(number, declared);
  ASSERT_TRUE(argument.ok()) << argument.status();
  EXPECT_TRUE(*argument == Argument(2.5));
  const auto back = ToIValue(*argument, declared, [](ValueId) { return at::Tensor(); });
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_TRUE(back->toTensor().unsafeGetTensorImpl()->is_wrapped_number());
}

TEST(ArgumentTest, ComplexNumbersAreTheirParts) {
  const c10::Argument declared = Declared(Schema("aten::add", "Tensor"), "alpha");
  const auto argument = Convert(c10::IValue(c10::complex<double>(0.5, 1)), declared);
  ASSERT_TRUE(argument.ok()) << argument.status();
  EXPECT_TRUE(*argument == Argument(std::vector<double>{0.5, 1}));
  const auto back = ToIValue(*argument, declared, [](ValueId) { return at::Tensor(); });
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->toComplexDouble(), c10::complex<double>(0.5, 1));
}

TEST(ArgumentTest, VisitsAndReplacesTensorsInLists) {
  c10::IValue list = std::vector<at::Tensor>{at::ones({1}), at::Tensor(), at::ones({2})};
  int visited = 0;
  VisitTensors(list, [&](const at::Tensor&) { ++visited; });
  EXPECT_EQ(visited, 2);
  ReplaceTensors(list, [](const at::Tensor& tensor) { return tensor * 3; });
  EXPECT_TRUE(list.toTensorVector()[2].equal(at::full({2}, 3.0f)));
  EXPECT_FALSE(list.toTensorVector()[1].defined());
}

}  // namespace
}  // namespace cotan::aot
