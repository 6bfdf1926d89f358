// SPDX-License-Identifier: Apache-2.0

#include "capi/test_handles.h"

#include <utility>

#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan::capi {

const std::string& LinearRegressionBytes() {
  static const std::string& bytes = *new std::string(testing::LinearRegression().Bytes());
  return bytes;
}

ProgramHandle LoadLinearRegression() {
  cotan_program* program = nullptr;
  const std::string& bytes = LinearRegressionBytes();
  EXPECT_EQ(cotan_program_load_copy(bytes.data(), bytes.size(), "linear", &program), COTAN_OK) << cotan_last_error();
  return ProgramHandle(program);
}

SessionHandle MakeSession(const cotan_program* program, const cotan_session_options* options) {
  cotan_session_options one_thread = COTAN_SESSION_OPTIONS_INIT;
  one_thread.threads = 1;
  cotan_session* session = nullptr;
  EXPECT_EQ(cotan_session_create(program, options == nullptr ? &one_thread : options, &session), COTAN_OK)
      << cotan_last_error();
  return SessionHandle(session);
}

TensorHandle F32(const std::vector<float>& values, const std::vector<int64_t>& sizes) {
  cotan_tensor* tensor = nullptr;
  EXPECT_EQ(cotan_tensor_create(COTAN_F32, static_cast<int32_t>(sizes.size()), sizes.data(), values.data(),
                                values.size() * sizeof(float), &tensor),
            COTAN_OK)
      << cotan_last_error();
  return TensorHandle(tensor);
}

std::vector<float> Floats(const cotan_tensor* tensor) {
  cotan_tensor_info info = COTAN_TENSOR_INFO_INIT;
  EXPECT_EQ(cotan_tensor_get_info(tensor, &info), COTAN_OK) << cotan_last_error();
  EXPECT_EQ(info.dtype, COTAN_F32);
  std::vector<float> values(static_cast<size_t>(info.num_elements));
  EXPECT_EQ(cotan_tensor_read(tensor, values.data(), values.size() * sizeof(float)), COTAN_OK) << cotan_last_error();
  return values;
}

float TrainOnce(cotan_session* session) {
  const TensorHandle input = F32({1, 2, 3, -1, 0.5f, 2}, {2, 3});
  const TensorHandle target = F32({1, 0, -1, 2}, {2, 2});
  cotan_tensor* arguments[] = {input.get(), target.get()};
  cotan_tensor* results[] = {nullptr};
  EXPECT_EQ(cotan_session_run(session, "train_step", arguments, 2, results, 1), COTAN_OK) << cotan_last_error();
  const TensorHandle loss(results[0]);
  return Floats(loss.get()).at(0);
}

std::vector<float> StateOf(cotan_session* session, const char* name) {
  cotan_tensor* value = nullptr;
  EXPECT_EQ(cotan_session_get_state(session, name, &value), COTAN_OK) << cotan_last_error();
  return Floats(TensorHandle(value).get());
}

}  // namespace cotan::capi
