// SPDX-License-Identifier: Apache-2.0

// Measures decompositions and solves of matrices, compiled and by LibTorch eager (LAPACK), one thread each, in turns.
//
//   ./bazelw run //testing/bench:decompositions [-- --seconds=N --rows=256]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/str_format.h"
#include "aot/compile.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "testing/bench/measure.h"

ABSL_FLAG(double, seconds, 2, "time to spend on each side of each measurement");
ABSL_FLAG(int64_t, rows, 256, "rows and columns of the matrices");

namespace cotan::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Case {
  const char* name;
  Tensors (*function)(const Tensors& in);
};

constexpr Case kCases[] = {
    {"eigh",
     [](const Tensors& in) -> Tensors {
       const auto [values, vectors] = at::linalg_eigh(in[0]);
       return {values, vectors};
     }},
    {"svd",
     [](const Tensors& in) -> Tensors {
       const auto [u, s, vh] = at::linalg_svd(in[0], false);
       return {u, s, vh};
     }},
    {"qr",
     [](const Tensors& in) -> Tensors {
       const auto [q, r] = at::linalg_qr(in[0]);
       return {q, r};
     }},
    {"solve", [](const Tensors& in) -> Tensors { return {at::linalg_solve(in[0], in[1])}; }},
    {"cholesky", [](const Tensors& in) -> Tensors { return {at::linalg_cholesky(in[0])}; }},
};

absl::StatusOr<Tensor> Borrow(const at::Tensor& tensor) {
  const DimVector sizes(tensor.sizes().begin(), tensor.sizes().end());
  const auto count = static_cast<size_t>(tensor.numel());
  if (tensor.scalar_type() == at::kFloat) return Tensor::Borrow(absl::MakeSpan(tensor.data_ptr<float>(), count), sizes);
  return Tensor::Borrow(absl::MakeSpan(tensor.data_ptr<double>(), count), sizes);
}

absl::Status Measure(const Case& c, at::ScalarType dtype) {
  const int64_t rows = absl::GetFlag(FLAGS_rows);
  at::manual_seed(1);
  const at::Tensor a = at::randn({rows, rows}, dtype);
  const Tensors inputs = {(a.matmul(a.mT()) / static_cast<double>(rows) + at::eye(rows, dtype)).contiguous(),
                          at::randn({rows, rows}, dtype)};
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model, aot::CompileFunction(c.function, inputs, {}));
  COTAN_ASSIGN_OR_RETURN(auto program, Program::LoadBytes(model.bytes()));
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, {.kernels = &CpuKernels(), .threads = 1}));
  std::vector<Tensor> arguments;
  for (const at::Tensor& input : inputs) {
    COTAN_ASSIGN_OR_RETURN(Tensor argument, Borrow(input));
    arguments.push_back(std::move(argument));
  }
  const auto compiled = [&] { return session.Run("forward", arguments).status(); };
  const auto eager = [&] {
    c.function(inputs);
    return absl::OkStatus();
  };
  const MeasureOptions options = {.seconds = absl::GetFlag(FLAGS_seconds)};
  COTAN_ASSIGN_OR_RETURN(const auto times, MeasureInTurns(options, compiled, eager));
  absl::PrintF("%-9s %s [%d, %d]: compiled %9.1f us, eager %9.1f us, ratio %.2f\n", c.name,
               dtype == at::kFloat ? "f32" : "f64", rows, rows, times.first.min_us, times.second.min_us,
               times.first.min_us / times.second.min_us);
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  at::set_num_threads(1);
  for (const cotan::testing::Case& c : cotan::testing::kCases) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      const absl::Status status = cotan::testing::Measure(c, dtype);
      if (status.ok()) continue;
      std::fprintf(stderr, "%s: %s\n", c.name, status.ToString().c_str());
      return 1;
    }
  }
  return 0;
}
