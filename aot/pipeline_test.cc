// SPDX-License-Identifier: Apache-2.0

#include "aot/pipeline.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "aot/compile_options.h"
#include "aot/model_source.h"

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

const Tensors& Examples() {
  static const Tensors& examples = *new Tensors{at::ones({4, 2})};
  return examples;
}

const TensorFunction& Double() {
  static const TensorFunction& function =
      *new TensorFunction([](const Tensors& in) -> Tensors { return {in[0] + in[0]}; });
  return function;
}

CompileOptions DynamicOptions() {
  CompileOptions options;
  options.dynamic_dims = {{.argument = 0, .dim = 0, .symbol = "batch", .min = 1, .max = 64}};
  return options;
}

// A function that records the sizes it is wanted at.
class RecordingSource : public FunctionSource {
 public:
  explicit RecordingSource(const CompileOptions& options, absl::Status error = absl::OkStatus())
      : FunctionSource(Double(), Examples(), options), error_(std::move(error)) {}

  absl::StatusOr<SizedModel> AtSizes(const DynamicShapes& shapes, const DimVector& values) const override {
    sizes.insert(values.empty() ? 0 : values[0]);
    if (!error_.ok()) return error_;
    return FunctionSource::AtSizes(shapes, values);
  }

  mutable std::set<int64_t> sizes;  // 0: those of the examples

 private:
  absl::Status error_;
};

TEST(PipelineTest, FixedSizesAreCompiledOnce) {
  const CompileOptions options;
  const RecordingSource source(options);
  const auto model = Compile(source);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(source.sizes, std::set<int64_t>({0}));
  EXPECT_EQ(model->methods().size(), 1u);
}

TEST(PipelineTest, OptionsAreCheckedBeforeAnythingIsTraced) {
  CompileOptions options = DynamicOptions();
  options.methods.accumulate = true;
  const RecordingSource source(options);
  EXPECT_EQ(Compile(source).status().message(), "methods.accumulate needs an optimizer");
  EXPECT_TRUE(source.sizes.empty());
}

TEST(PipelineTest, ErrorsNameTheSizesAndOtherSizesAreTried) {
  const CompileOptions options = DynamicOptions();
  const RecordingSource failing(options, absl::InvalidArgumentError("no"));
  EXPECT_THAT(std::string(Compile(failing).status().message()),
              HasSubstr("with batch=11, which the declared ranges allow: no"));
  EXPECT_EQ(failing.sizes.size(), 3u);
  const RecordingSource unsupported(options, absl::UnimplementedError("no"));
  EXPECT_EQ(Compile(unsupported).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(unsupported.sizes.size(), 1u);
}

TEST(PipelineTest, TheEndsOfTheRangesAreTracedOnly) {
  CompileOptions options = DynamicOptions();
  options.cache_dir = ::testing::TempDir() + "/pipeline_test_cache";
  std::filesystem::remove_all(options.cache_dir);
  const RecordingSource source(options);
  const auto model = Compile(source);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const int64_t traced : {1, 2, 64}) EXPECT_TRUE(source.sizes.contains(traced)) << traced;
  const std::filesystem::directory_iterator entries(options.cache_dir);
  // One entry for each of the three points that are compiled.
  EXPECT_EQ(std::distance(begin(entries), end(entries)), 3);
}

}  // namespace
}  // namespace cotan::aot
