// SPDX-License-Identifier: Apache-2.0

// Tests that each function refuses NULL where it needs a pointer. header_test.sh checks that no function is missing
// here.
#include <functional>
#include <string>
#include <vector>

#include "capi/test_handles.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "include/cotan.h"

namespace cotan::capi {
namespace {

using ::testing::HasSubstr;

struct Call {
  const char* null;  // the parameter that is NULL
  std::function<cotan_status()> call;
};

void ExpectRefused(const std::vector<Call>& calls) {
  for (size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].call(), COTAN_INVALID_ARGUMENT) << "call " << i;
    EXPECT_THAT(cotan_last_error(), HasSubstr(std::string(calls[i].null) + " is NULL")) << "call " << i;
  }
}

TEST(NullTest, FunctionsOfTensorsRefuseNull) {
  const TensorHandle tensor = F32({1}, {1});
  const int64_t sizes[] = {1};
  float data[] = {1};
  cotan_tensor* out = nullptr;
  ExpectRefused({
      {"out", [&] { return cotan_tensor_create(COTAN_F32, 1, sizes, data, 4, nullptr); }},
      {"sizes", [&] { return cotan_tensor_create(COTAN_F32, 1, nullptr, data, 4, &out); }},
      {"out", [&] { return cotan_tensor_borrow(COTAN_F32, 1, sizes, nullptr, data, 4, nullptr, nullptr, nullptr); }},
      {"sizes", [&] { return cotan_tensor_borrow(COTAN_F32, 1, nullptr, nullptr, data, 4, nullptr, nullptr, &out); }},
      {"data", [&] { return cotan_tensor_borrow(COTAN_F32, 1, sizes, nullptr, nullptr, 4, nullptr, nullptr, &out); }},
      {"tensor", [&] { return cotan_tensor_get_info(nullptr, nullptr); }},
      {"info", [&] { return cotan_tensor_get_info(tensor.get(), nullptr); }},
      {"tensor", [&] { return cotan_tensor_read(nullptr, data, 4); }},
      {"data", [&] { return cotan_tensor_read(tensor.get(), nullptr, 4); }},
  });
  EXPECT_EQ(out, nullptr);
}

TEST(NullTest, FunctionsOfProgramsRefuseNull) {
  const ProgramHandle owner = LoadLinearRegression();
  const cotan_program* program = owner.get();
  cotan_program* out = nullptr;
  cotan_tensor* tensor = nullptr;
  size_t index = 0;
  ExpectRefused({
      {"path", [&] { return cotan_program_load(nullptr, &out); }},
      {"out", [&] { return cotan_program_load("x", nullptr); }},
      {"bytes", [&] { return cotan_program_load_copy(nullptr, 4, "x", &out); }},
      {"name", [&] { return cotan_program_load_copy("text", 4, nullptr, &out); }},
      {"out", [&] { return cotan_program_load_copy("text", 4, "x", nullptr); }},
      {"bytes", [&] { return cotan_program_load_memory(nullptr, 4, "x", nullptr, nullptr, &out); }},
      {"program", [&] { return cotan_program_method(nullptr, 0, nullptr); }},
      {"info", [&] { return cotan_program_method(program, 0, nullptr); }},
      {"program", [&] { return cotan_program_input(nullptr, 0, 0, nullptr); }},
      {"info", [&] { return cotan_program_input(program, 0, 0, nullptr); }},
      {"program", [&] { return cotan_program_output(nullptr, 0, 0, nullptr); }},
      {"info", [&] { return cotan_program_output(program, 0, 0, nullptr); }},
      {"program", [&] { return cotan_program_state(nullptr, 0, nullptr); }},
      {"info", [&] { return cotan_program_state(program, 0, nullptr); }},
      {"program", [&] { return cotan_program_dimension(nullptr, 0, nullptr); }},
      {"info", [&] { return cotan_program_dimension(program, 0, nullptr); }},
      {"program", [&] { return cotan_program_find_method(nullptr, "eval", &index); }},
      {"name", [&] { return cotan_program_find_method(program, nullptr, &index); }},
      {"index", [&] { return cotan_program_find_method(program, "eval", nullptr); }},
      {"program", [&] { return cotan_program_find_state(nullptr, "bias", &index); }},
      {"name", [&] { return cotan_program_find_state(program, nullptr, &index); }},
      {"index", [&] { return cotan_program_find_state(program, "bias", nullptr); }},
      {"program", [&] { return cotan_program_number_double(nullptr, 0, 0, 1, &tensor); }},
      {"out", [&] { return cotan_program_number_double(program, 0, 0, 1, nullptr); }},
      {"program", [&] { return cotan_program_number_int64(nullptr, 0, 0, 1, &tensor); }},
      {"program", [&] { return cotan_program_number_bool(nullptr, 0, 0, 1, &tensor); }},
  });
  EXPECT_EQ(out, nullptr);
}

TEST(NullTest, FunctionsOfSessionsRefuseANullSession) {
  const ProgramHandle program = LoadLinearRegression();
  cotan_tensor* tensor = nullptr;
  cotan_session* session = nullptr;
  ExpectRefused({
      {"program", [&] { return cotan_session_create(nullptr, nullptr, &session); }},
      {"out", [&] { return cotan_session_create(program.get(), nullptr, nullptr); }},
      {"session", [&] { return cotan_session_run(nullptr, "eval", nullptr, 0, nullptr, 0); }},
      {"session", [&] { return cotan_session_run_timed(nullptr, "eval", nullptr, 0, nullptr, 0, nullptr, nullptr); }},
      {"session", [&] { return cotan_session_synchronize(nullptr); }},
      {"session", [&] { return cotan_session_gradient(nullptr, "bias", &tensor); }},
      {"session", [&] { return cotan_session_get_state(nullptr, "bias", &tensor); }},
      {"session", [&] { return cotan_session_set_state(nullptr, "bias", tensor); }},
      {"session", [&] { return cotan_session_get_hyperparameter(nullptr, "lr", 0, nullptr); }},
      {"session", [&] { return cotan_session_set_hyperparameter(nullptr, "lr", 0, 1); }},
      {"session", [&] { return cotan_session_get_rng(nullptr, nullptr, nullptr); }},
      {"session", [&] { return cotan_session_set_rng(nullptr, 0, 0); }},
      {"session", [&] { return cotan_session_save_checkpoint(nullptr, "x"); }},
      {"session", [&] { return cotan_session_load_checkpoint(nullptr, "x"); }},
      {"session", [&] { return cotan_session_plan_summary(nullptr, "eval", nullptr); }},
      {"session", [&] { return cotan_session_plan_text(nullptr, "eval", nullptr); }},
      {"session", [&] { return cotan_session_state_bytes(nullptr, nullptr); }},
      {"session", [&] { return cotan_session_arena_bytes(nullptr, nullptr); }},
      {"session", [&] { return cotan_session_num_plans_made(nullptr, nullptr); }},
  });
}

TEST(NullTest, FunctionsOfSessionsRefuseNullArguments) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle owner = MakeSession(program.get());
  TrainOnce(owner.get());
  cotan_session* const session = owner.get();
  cotan_tensor* tensor = nullptr;
  cotan_tensor* result = nullptr;
  char* text = nullptr;
  int64_t number = 0;
  size_t one = 1;
  ExpectRefused({
      {"method", [&] { return cotan_session_run(session, nullptr, &tensor, 1, &result, 1); }},
      {"arguments", [&] { return cotan_session_run(session, "eval", nullptr, 1, &result, 1); }},
      {"argument 0", [&] { return cotan_session_run(session, "eval", &tensor, 1, &result, 1); }},
      {"results", [&] { return cotan_session_run(session, "eval", &tensor, 1, nullptr, 1); }},
      {"num_steps", [&] { return cotan_session_run_timed(session, "eval", nullptr, 0, nullptr, 0, nullptr, nullptr); }},
      {"nanoseconds", [&] { return cotan_session_run_timed(session, "eval", nullptr, 0, nullptr, 0, nullptr, &one); }},
      {"parameter", [&] { return cotan_session_gradient(session, nullptr, &tensor); }},
      {"out", [&] { return cotan_session_gradient(session, "bias", nullptr); }},
      {"name", [&] { return cotan_session_get_state(session, nullptr, &tensor); }},
      {"out", [&] { return cotan_session_get_state(session, "bias", nullptr); }},
      {"name", [&] { return cotan_session_set_state(session, nullptr, tensor); }},
      {"value", [&] { return cotan_session_set_state(session, "bias", nullptr); }},
      {"name", [&] { return cotan_session_get_hyperparameter(session, nullptr, 0, nullptr); }},
      {"value", [&] { return cotan_session_get_hyperparameter(session, "lr", 0, nullptr); }},
      {"name", [&] { return cotan_session_set_hyperparameter(session, nullptr, 0, 1); }},
      {"seed", [&] { return cotan_session_get_rng(session, nullptr, &number); }},
      {"offset", [&] { return cotan_session_get_rng(session, &number, nullptr); }},
      {"path", [&] { return cotan_session_save_checkpoint(session, nullptr); }},
      {"path", [&] { return cotan_session_load_checkpoint(session, nullptr); }},
      {"method", [&] { return cotan_session_plan_summary(session, nullptr, nullptr); }},
      {"summary", [&] { return cotan_session_plan_summary(session, "train_step", nullptr); }},
      {"method", [&] { return cotan_session_plan_text(session, nullptr, &text); }},
      {"out", [&] { return cotan_session_plan_text(session, "train_step", nullptr); }},
      {"bytes", [&] { return cotan_session_state_bytes(session, nullptr); }},
      {"bytes", [&] { return cotan_session_arena_bytes(session, nullptr); }},
      {"count", [&] { return cotan_session_num_plans_made(session, nullptr); }},
  });
}

TEST(NullTest, FreeingAndCountingAcceptNull) {
  cotan_tensor_free(nullptr);
  cotan_program_free(nullptr);
  cotan_session_free(nullptr);
  cotan_string_free(nullptr);
  EXPECT_EQ(cotan_program_num_methods(nullptr), 0u);
  EXPECT_EQ(cotan_program_num_states(nullptr), 0u);
  EXPECT_EQ(cotan_program_num_dimensions(nullptr), 0u);
}

}  // namespace
}  // namespace cotan::capi
