// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/verify_call.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/api/kernel.h"
#include "kernels/api/registry.h"
#include "runtime/session/session_access.h"
#include "runtime/testing/loaded_function.h"
#include "runtime/testing/test_kernels.h"

namespace cotan {
namespace {

using testing::AliasOf;
using testing::At;
using testing::Fresh;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::Mutated;
using testing::Plain;
using testing::Plus;
using testing::ProgramBuilder;
using testing::TestKernels;
using testing::Values;
using testing::Vector;

// The kernel of an expression, which also increases the first element of its first input.
class WritesItsInput final : public Kernel {
 public:
  explicit WritesItsInput(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {
    scratch_bytes_ = kernel_->scratch_bytes();
  }

  absl::Status Run(const KernelArgs& args) override {
    if (absl::Status status = kernel_->Run(args); !status.ok()) return status;
    *static_cast<float*>(args.inputs[0]) += 1;
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeFaultyExpr(const KernelRequest& request) {
  const KernelFactory factory = *TestKernels().Find(DeviceType::kCpu, serialization::Op::kExpr, DType::kFloat32);
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = factory(request);
  if (!kernel.ok()) return kernel.status();
  return std::make_unique<WritesItsInput>(*std::move(kernel));
}

// return x + 1
ProgramBuilder AddsOne(ViewAndMutationMetaFields facts) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.Output("y", Plus(f, f.Input("x", DType::kFloat32, {"2"}), 1.0));
  SetMetadata(f, facts);
  return builder;
}

ViewAndMutationMetaFields OneOutput(OutputAliasInfo output) {
  ViewAndMutationMetaFields facts;
  facts.input_info = {Plain()};
  facts.output_info = {std::move(output)};
  return facts;
}

TEST(VerifyCallTest, ElementsThatAKernelMustNotWriteAreNamed) {
  KernelRegistry kernels;
  ASSERT_TRUE(kernels.Register(DeviceType::kCpu, serialization::Op::kExpr, DType::kFloat32, &MakeFaultyExpr).ok());
  const Session session =
      *Session::Create(AddsOne(OneOutput(Fresh(false))).Load(), {.kernels = &kernels, .threads = 1});
  Function unverified = *Function::Create(session, "f");
  EXPECT_TRUE(unverified.Call({Variable(Vector({1, 2}))}).ok());
  Function verified = *Function::Create(session, "f", {.verify_calls = true});
  const absl::Status status = verified.Call({Variable(Vector({1, 2}))}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), HasSubstr("argument 'x' is not mutated, but its elements have changed"));
}

// The stages around a call of f(x) = x + 1, whose argument and result `change` sets in place of the program. `traced`:
// the metadata of the result.
absl::Status VerifyChange(const std::function<void(Variable& x, FunctionResult& y)>& change,
                          const OutputAliasInfo& traced = Fresh(false)) {
  const Session session =
      *Session::Create(AddsOne(OneOutput(traced)).Load(), {.kernels = &TestKernels(), .threads = 1});
  const std::shared_ptr<SessionCore>& session_core = SessionCoreOf(session);
  FunctionCore core(session_core, *FunctionMetadata::Create(session_core->program(), 0));
  Variable x(Vector({1, 2}));
  std::vector<FunctionResult> results = {Variable(Vector({2, 3}))};
  CallContext call(core);
  call.inputs = {&x};
  call.outputs = &results;
  call.in_traced_mode = true;
  call.tensors[0] = &x.tensor();
  call.executable = *core.forward(/*is_recorded=*/false).Prepare(call.tensors, /*known=*/nullptr);
  const auto entry = std::make_shared<InputsAtEntry>();
  EXPECT_TRUE(VerifyEntryStage(entry).Run(call).ok());
  change(x, results[0]);
  return VerifyExitStage(core.metadata(), entry).Run(call);
}

TEST(VerifyCallTest, DifferencesFromTheMetadataAreNamed) {
  EXPECT_TRUE(VerifyChange([](Variable&, FunctionResult&) {}).ok());
  const auto message = [](const std::function<void(Variable&, FunctionResult&)>& change) {
    return std::string(VerifyChange(change).message());
  };
  EXPECT_THAT(message([](Variable& x, FunctionResult&) { x.BumpVersion(); }),
              HasSubstr("argument 'x' is not mutated, but its version 0 became 1"));
  EXPECT_THAT(message([](Variable& x, FunctionResult&) {
                x = Variable(Vector({1, 2}));
              }),
              HasSubstr("argument 'x' is not mutated, but has another storage"));
  EXPECT_THAT(message([](Variable& x, FunctionResult& y) { y = x; }),
              HasSubstr("output 0 shares the storage of argument 'x'"));
  EXPECT_THAT(message([](Variable&, FunctionResult& y) {
                y = Leaf({2, 3});
              }),
              HasSubstr("output 0 requires grad, contrary to the trace"));
  EXPECT_THAT(message([](Variable&, FunctionResult& y) { y = int64_t{3}; }), HasSubstr("output 0 is not a tensor"));
}

TEST(VerifyCallTest, StridesThatWereNotTracedAreNamed) {
  OutputAliasInfo traced = Fresh(false);
  traced.geometry = testing::RowMajor({2});
  const auto return_strided = [](int64_t stride) {
    return [stride](Variable&, FunctionResult& y) {
      const Tensor memory = Vector({2, 0, 3});
      y = Variable(*Tensor::InStorage(memory.storage(), DType::kFloat32, {.sizes = {2}, .strides = {stride}}));
    };
  };
  EXPECT_TRUE(VerifyChange(return_strided(1), traced).ok());
  EXPECT_THAT(VerifyChange(return_strided(2), traced).message(),
              HasSubstr("output 0 has the layout [2]{2} in place of [2]{1}"));
  EXPECT_TRUE(VerifyChange(return_strided(2)).ok()) << "the metadata has no strides";
}

// x.add_(1); return {x, x + 1}
TEST(VerifyCallTest, CallsThatFollowTheirMetadataPass) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  const uint32_t x = Plus(f, f.Input("x", DType::kFloat32, {"2"}), 1.0);
  f.Output("x", x);
  f.Output("y", Plus(f, x, 1.0));
  ViewAndMutationMetaFields facts;
  facts.input_info = {Mutated(Plain())};
  facts.output_info = {AliasOf(OutputType::kIsInput, 0, false), Fresh(false)};
  SetMetadata(f, facts);
  const LoadedFunction program(std::move(builder));
  Function verified = *Function::Create(program.session, "f", {.verify_calls = true});
  const Variable argument(Vector({1, 2}));
  for (int call = 0; call < 2; ++call) {
    const auto results = verified.Call({argument});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ(At(*results, 0).tensor().storage(), argument.tensor().storage());
  }
  EXPECT_EQ(Values(argument), (std::vector<float>{3, 4}));
  EXPECT_THAT(verified.ToString(), HasSubstr("verify in   copies of all arguments"));
  EXPECT_THAT(verified.ToString(), HasSubstr("verify out  "));
}

}  // namespace
}  // namespace cotan
