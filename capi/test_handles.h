// SPDX-License-Identifier: Apache-2.0

// Handles of the C interface that free themselves, and the program that its tests share.
#ifndef COTAN_CAPI_TEST_HANDLES_H_
#define COTAN_CAPI_TEST_HANDLES_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "include/cotan.h"

namespace cotan::capi {

struct FreeHandle {
  void operator()(cotan_program* program) const { cotan_program_free(program); }
  void operator()(cotan_session* session) const { cotan_session_free(session); }
  void operator()(cotan_tensor* tensor) const { cotan_tensor_free(tensor); }
};
using ProgramHandle = std::unique_ptr<cotan_program, FreeHandle>;
using SessionHandle = std::unique_ptr<cotan_session, FreeHandle>;
using TensorHandle = std::unique_ptr<cotan_tensor, FreeHandle>;

// Returns the bytes of testing::LinearRegression() (runtime/testing/program_builder.h).
const std::string& LinearRegressionBytes();

// Return handles; the test fails if that fails.
ProgramHandle LoadLinearRegression();
SessionHandle MakeSession(const cotan_program* program, const cotan_session_options* options = nullptr);
TensorHandle F32(const std::vector<float>& values, const std::vector<int64_t>& sizes);

// Returns the elements of an f32 tensor; the test fails if it is another one.
std::vector<float> Floats(const cotan_tensor* tensor);

// Runs "train_step" once on fixed numbers and returns the loss; the test fails if that fails.
float TrainOnce(cotan_session* session);
// Returns the value of a state.
std::vector<float> StateOf(cotan_session* session, const char* name);

}  // namespace cotan::capi

#endif  // COTAN_CAPI_TEST_HANDLES_H_
