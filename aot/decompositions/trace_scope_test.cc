// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/trace_scope.h"

#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"

namespace cotan::aot {
namespace {

TEST(TraceScopeTest, SetsAndRestoresThreadsAndGradMode) {
  const int threads = at::get_num_threads();
  ASSERT_TRUE(at::GradMode::is_enabled());
  {
    TraceScope scope(/*grad_enabled=*/false);
    EXPECT_EQ(at::get_num_threads(), 1);
    EXPECT_FALSE(at::GradMode::is_enabled());
  }
  EXPECT_EQ(at::get_num_threads(), threads);
  EXPECT_TRUE(at::GradMode::is_enabled());
}

TEST(TraceScopeTest, NewTensorsAreRealOnlyInARealScope) {
  TraceScope scope(/*grad_enabled=*/true);
  Recorder recorder;
  RecordingScope recording(recorder);
  EXPECT_TRUE(at::functionalization::impl::isFunctionalTensor(at::ones({2})));
  RealScope real;
  EXPECT_FALSE(at::functionalization::impl::isFunctionalTensor(at::ones({2})));
}

TEST(TraceScopeTest, ExceptionsBecomeInvalidArguments) {
  const auto status = [](auto raise) {
    try {
      raise();
    } catch (...) {
      return StatusFromCurrentException("tracing 'f'");
    }
    return absl::OkStatus();
  };
  EXPECT_EQ(status([] { throw std::runtime_error("no"); }), absl::InvalidArgumentError("tracing 'f': no"));
  EXPECT_EQ(status([] { TORCH_CHECK(false, "not ", 1); }), absl::InvalidArgumentError("tracing 'f': not 1"));
}

}  // namespace
}  // namespace cotan::aot
