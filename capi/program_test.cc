// SPDX-License-Identifier: Apache-2.0

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "capi/test_handles.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "include/cotan.h"
#include "runtime/testing/program_builder.h"
#include "serialization/schema/program.pb.h"

namespace cotan::capi {
namespace {

using ::testing::HasSubstr;

void CountRelease(void* context) { ++*static_cast<int*>(context); }

cotan_value_info InputOf(const ProgramHandle& program, size_t method, size_t input) {
  cotan_value_info info = COTAN_VALUE_INFO_INIT;
  EXPECT_EQ(cotan_program_input(program.get(), method, input, &info), COTAN_OK) << cotan_last_error();
  return info;
}

size_t MethodOf(const ProgramHandle& program, const char* name) {
  size_t index = 99;
  EXPECT_EQ(cotan_program_find_method(program.get(), name, &index), COTAN_OK) << cotan_last_error();
  return index;
}

TEST(CProgramTest, AFileIsLoaded) {
  const std::string path = ::testing::TempDir() + "/linear.cotan";
  std::ofstream(path, std::ios::binary) << LinearRegressionBytes();
  cotan_program* loaded = nullptr;
  ASSERT_EQ(cotan_program_load(path.c_str(), &loaded), COTAN_OK) << cotan_last_error();
  const ProgramHandle program(loaded);
  EXPECT_EQ(cotan_program_num_methods(loaded), 4u);
  EXPECT_GT(TrainOnce(MakeSession(loaded).get()), 0);
}

TEST(CProgramTest, AMissingFileIsNamed) {
  cotan_program* program = nullptr;
  EXPECT_EQ(cotan_program_load("/nowhere/net.cotan", &program), COTAN_NOT_FOUND);
  EXPECT_THAT(cotan_last_error(), HasSubstr("cotan_program_load: "));
  EXPECT_THAT(cotan_last_error(), HasSubstr("/nowhere/net.cotan"));
  EXPECT_EQ(program, nullptr);
}

TEST(CProgramTest, DamagedBytesAreRefusedAndNotReleased) {
  std::string bytes = LinearRegressionBytes();
  cotan_program* program = nullptr;
  EXPECT_EQ(cotan_program_load_copy("text", 4, "my bytes", &program), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("my bytes"));
  EXPECT_EQ(cotan_program_load_copy(bytes.data(), bytes.size() - 1, "my bytes", &program), COTAN_DATA_LOSS);
  bytes[bytes.size() - 10] ^= 1;
  int released = 0;
  EXPECT_EQ(cotan_program_load_memory(bytes.data(), bytes.size(), "my bytes", CountRelease, &released, &program),
            COTAN_DATA_LOSS);
  EXPECT_EQ(released, 0);
  EXPECT_EQ(program, nullptr);
}

TEST(CProgramTest, LentBytesAreReleasedAfterTheLastSession) {
  const std::string bytes = LinearRegressionBytes();
  int released = 0;
  cotan_program* loaded = nullptr;
  ASSERT_EQ(cotan_program_load_memory(bytes.data(), bytes.size(), "lent", CountRelease, &released, &loaded), COTAN_OK)
      << cotan_last_error();
  ProgramHandle program(loaded);
  SessionHandle session = MakeSession(loaded);
  program.reset();
  EXPECT_EQ(released, 0);
  EXPECT_GT(TrainOnce(session.get()), 0);
  session.reset();
  EXPECT_EQ(released, 1);
}

TEST(CProgramTest, MethodsAreDescribedAsRunCallsThem) {
  const ProgramHandle program = LoadLinearRegression();
  cotan_method_info info = COTAN_METHOD_INFO_INIT;
  ASSERT_EQ(cotan_program_method(program.get(), MethodOf(program, "train_step"), &info), COTAN_OK);
  EXPECT_STREQ(info.name, "train_step");
  EXPECT_EQ(info.num_inputs, 2u);
  EXPECT_EQ(info.num_outputs, 1u);
  // Without the saved value.
  ASSERT_EQ(cotan_program_method(program.get(), MethodOf(program, "forward"), &info), COTAN_OK);
  EXPECT_EQ(info.num_outputs, 1u);
  ASSERT_EQ(cotan_program_method(program.get(), MethodOf(program, "backward"), &info), COTAN_OK);
  EXPECT_EQ(info.num_inputs, 1u);
  EXPECT_EQ(info.num_outputs, 3u);
  EXPECT_STREQ(InputOf(program, MethodOf(program, "backward"), 0).name, "tangent.prediction");
}

TEST(CProgramTest, FlagsOfTangentsAreNoInputs) {
  testing::ProgramBuilder builder;
  {
    testing::MethodBuilder forward = builder.AddMethod("forward");
    const uint32_t x = forward.Input("x", DType::kFloat32, {"2"});
    const uint32_t a = forward.Pointwise({"2"}, {x}, [](auto& b) { return b.Add(0, 0); });
    const uint32_t b = forward.Pointwise({"2"}, {x}, [](auto& e) { return e.Mul(0, 0); });
    forward.Output("a", a);
    forward.Output("b", b);
    forward.proto().add_outputs(x);
    forward.proto().set_num_saved(1);
    forward.proto().set_backward_method("backward");
    testing::MethodBuilder backward = builder.AddMethod("backward");
    const uint32_t saved = backward.Input("saved.0", DType::kFloat32, {"2"});
    backward.Input("tangent.a", DType::kFloat32, {"2"});
    backward.Input("tangent.b", DType::kFloat32, {"2"});
    backward.Input("has.a", DType::kBool, {});
    backward.Input("has.b", DType::kBool, {});
    backward.Output("x", backward.Pointwise({"2"}, {saved}, [](auto& e) { return e.Add(0, 0); }));
  }
  const std::string bytes = builder.Bytes();
  cotan_program* loaded = nullptr;
  ASSERT_EQ(cotan_program_load_copy(bytes.data(), bytes.size(), "flags", &loaded), COTAN_OK) << cotan_last_error();
  const ProgramHandle program(loaded);
  cotan_method_info info = COTAN_METHOD_INFO_INIT;
  ASSERT_EQ(cotan_program_method(loaded, MethodOf(program, "backward"), &info), COTAN_OK);
  EXPECT_EQ(info.num_inputs, 2u);
}

TEST(CProgramTest, ValuesHaveNamesTypesAndSizes) {
  const ProgramHandle program = LoadLinearRegression();
  const cotan_value_info input = InputOf(program, MethodOf(program, "train_step"), 0);
  EXPECT_STREQ(input.name, "input");
  EXPECT_STREQ(input.type, "f32[s0,3]");
  EXPECT_EQ(input.dtype, COTAN_F32);
  ASSERT_EQ(input.rank, 2);
  EXPECT_EQ(input.sizes[0], -1);
  EXPECT_EQ(input.sizes[1], 3);
  cotan_value_info output = COTAN_VALUE_INFO_INIT;
  ASSERT_EQ(cotan_program_output(program.get(), MethodOf(program, "eval"), 0, &output), COTAN_OK);
  EXPECT_STREQ(output.name, "prediction");
  ASSERT_EQ(cotan_program_num_dimensions(program.get()), 1u);
  cotan_dimension_info batch = COTAN_DIMENSION_INFO_INIT;
  ASSERT_EQ(cotan_program_dimension(program.get(), 0, &batch), COTAN_OK);
  EXPECT_STREQ(batch.name, "batch");
  EXPECT_EQ(batch.min, 1);
  EXPECT_EQ(batch.max, 64);
}

TEST(CProgramTest, StatesHaveRolesAndOwners) {
  const ProgramHandle program = LoadLinearRegression();
  EXPECT_EQ(cotan_program_num_states(program.get()), 6u);
  size_t index = 0;
  cotan_state_info info = COTAN_STATE_INFO_INIT;
  ASSERT_EQ(cotan_program_find_state(program.get(), "optimizer.weight.momentum", &index), COTAN_OK);
  ASSERT_EQ(cotan_program_state(program.get(), index, &info), COTAN_OK);
  EXPECT_EQ(info.role, COTAN_OPTIMIZER_SLOT);
  EXPECT_STREQ(info.owner, "weight");
  EXPECT_STREQ(info.type, "f32[2,3]");
  EXPECT_EQ(info.sizes[1], 3);
  ASSERT_EQ(cotan_program_find_state(program.get(), "rng", &index), COTAN_OK);
  ASSERT_EQ(cotan_program_state(program.get(), index, &info), COTAN_OK);
  EXPECT_EQ(info.role, COTAN_RNG);
  EXPECT_EQ(COTAN_CONSTANT, serialization::State::CONSTANT);
}

TEST(CProgramTest, UnknownNamesAndIndicesAreNamed) {
  const ProgramHandle program = LoadLinearRegression();
  size_t index = 7;
  EXPECT_EQ(cotan_program_find_method(program.get(), "train", &index), COTAN_NOT_FOUND);
  EXPECT_THAT(cotan_last_error(), HasSubstr("no method 'train'; there are: train_step, eval, forward, backward"));
  EXPECT_EQ(cotan_program_find_state(program.get(), "wait", &index), COTAN_NOT_FOUND);
  EXPECT_EQ(index, 7u);
  cotan_value_info info = COTAN_VALUE_INFO_INIT;
  EXPECT_EQ(cotan_program_input(program.get(), 4, 0, &info), COTAN_OUT_OF_RANGE);
  EXPECT_THAT(cotan_last_error(), HasSubstr("method is 4, but there are 4"));
  EXPECT_EQ(cotan_program_output(program.get(), 0, 1, &info), COTAN_OUT_OF_RANGE);
  EXPECT_THAT(cotan_last_error(), HasSubstr("output is 1, but there are 1"));
  cotan_state_info state = COTAN_STATE_INFO_INIT;
  EXPECT_EQ(cotan_program_state(program.get(), 6, &state), COTAN_OUT_OF_RANGE);
  cotan_dimension_info dimension = COTAN_DIMENSION_INFO_INIT;
  EXPECT_EQ(cotan_program_dimension(program.get(), 1, &dimension), COTAN_OUT_OF_RANGE);
}

TEST(CProgramTest, NumbersBecomeTensorsOfTheInputsType) {
  testing::ProgramBuilder builder;
  testing::MethodBuilder method = builder.AddMethod("scale");
  const uint32_t x = method.Input("x", DType::kFloat32, {"2"});
  const uint32_t factor = method.Input("factor", DType::kFloat32, {});
  method.Input("flag", DType::kBool, {});
  method.Output("y", method.Pointwise({"2"}, {x, factor}, [](auto& b) { return b.Mul(0, 1); }));
  const std::string bytes = builder.Bytes();
  cotan_program* loaded = nullptr;
  ASSERT_EQ(cotan_program_load_copy(bytes.data(), bytes.size(), "scale", &loaded), COTAN_OK) << cotan_last_error();
  const ProgramHandle program(loaded);
  cotan_tensor* numbers[3] = {};
  EXPECT_EQ(cotan_program_number_double(loaded, 0, 1, 0.5, &numbers[0]), COTAN_OK) << cotan_last_error();
  EXPECT_EQ(cotan_program_number_int64(loaded, 0, 1, 3, &numbers[1]), COTAN_OK) << cotan_last_error();
  EXPECT_EQ(cotan_program_number_bool(loaded, 0, 2, 5, &numbers[2]), COTAN_OK) << cotan_last_error();
  const TensorHandle half(numbers[0]);
  const TensorHandle three(numbers[1]);
  const TensorHandle truth(numbers[2]);
  EXPECT_THAT(Floats(half.get()), ::testing::ElementsAre(0.5f));
  EXPECT_THAT(Floats(three.get()), ::testing::ElementsAre(3.0f));
  uint8_t byte = 0;
  ASSERT_EQ(cotan_tensor_read(truth.get(), &byte, 1), COTAN_OK);
  EXPECT_EQ(byte, 1);
  cotan_tensor* none = nullptr;
  EXPECT_EQ(cotan_program_number_double(loaded, 0, 0, 0.5, &none), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("'x'"));
  EXPECT_EQ(cotan_program_number_int64(loaded, 0, 1, (int64_t{1} << 24) + 1, &none), COTAN_OUT_OF_RANGE);
  EXPECT_EQ(none, nullptr);
}

}  // namespace
}  // namespace cotan::capi
