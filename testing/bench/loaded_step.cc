// SPDX-License-Identifier: Apache-2.0

#include "testing/bench/loaded_step.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::testing {
namespace {

using serialization::Method;
using serialization::TensorType;

// Fills a tensor with values that depend on their index alone.
absl::Status FillByIndex(Tensor& tensor) {
  const auto hash = [](int64_t i) { return (static_cast<uint32_t>(i) * 2654435761U) >> 8; };
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    if (tensor.dtype() == DType::kFloat32) {
      static_cast<float*>(tensor.address())[i] = static_cast<float>(hash(i)) / (1 << 23) - 1;
    } else if (tensor.dtype() == DType::kInt64) {
      static_cast<int64_t*>(tensor.address())[i] = hash(i) % 2;
    } else {
      return absl::InvalidArgumentError(absl::StrCat("an input is ", tensor.ToString(), ", expected f32 or i64"));
    }
  }
  return absl::OkStatus();
}

void AppendBytes(const Tensor& tensor, std::string& bytes) {
  bytes.append(static_cast<const char*>(tensor.address()), tensor.storage()->bytes());
}

}  // namespace

absl::StatusOr<std::unique_ptr<LoadedStep>> LoadedStep::Load(const std::string& artifact, const std::string& method,
                                                             StateMemory states) {
  std::shared_ptr<const Program> program;
  if (states == StateMemory::kMapped) {
    COTAN_ASSIGN_OR_RETURN(program, Program::Load(artifact));
  } else {
    COTAN_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(artifact));
    const auto file = std::make_shared<const MappedFile>(std::move(mapped));
    COTAN_ASSIGN_OR_RETURN(program, Program::LoadShared(file->bytes(), file, artifact));
  }
  return std::unique_ptr<LoadedStep>(new LoadedStep(std::move(program), method));
}

absl::Status LoadedStep::Start(int threads) {
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program_, {.kernels = &CpuKernels(), .threads = threads}));
  session_ = std::make_unique<Session>(std::move(session));
  COTAN_ASSIGN_OR_RETURN(method_, session_->FindMethod(name_));
  results_.assign(static_cast<size_t>(session_->NumResults(method_)), Tensor());
  return MakeArguments();
}

absl::Status LoadedStep::MakeArguments() {
  const Method& method = program_->method(method_.index);
  for (const uint32_t input : method.inputs()) {
    COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, DenseLayout(method.values(static_cast<int>(input)).type(), {}));
    const DType dtype = ToDType(method.values(static_cast<int>(input)).type().dtype());
    COTAN_ASSIGN_OR_RETURN(Tensor argument, Tensor::EmptyStrided(dtype, layout));
    COTAN_RETURN_IF_ERROR(FillByIndex(argument));
    arguments_.push_back(std::move(argument));
  }
  return absl::OkStatus();
}

absl::Status LoadedStep::Run() { return session_->Run(method_, arguments_, absl::MakeSpan(results_)); }

std::string LoadedStep::ResultBits() const {
  std::string bytes;
  for (const Tensor& result : results_) AppendBytes(result, bytes);
  return bytes;
}

absl::StatusOr<std::string> LoadedStep::Bits() const {
  std::string bytes = ResultBits();
  for (const serialization::State& state : program_->artifact().states()) {
    COTAN_ASSIGN_OR_RETURN(const Tensor value, session_->State(state.name()));
    AppendBytes(value, bytes);
  }
  return bytes;
}

}  // namespace cotan::testing
