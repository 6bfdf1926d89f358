// SPDX-License-Identifier: Apache-2.0

// Compiled models in files, and loaded again.
#ifndef COTAN_TESTING_AUTOGRAD_LOADED_H_
#define COTAN_TESTING_AUTOGRAD_LOADED_H_

#include <gtest/gtest.h>

#include <fstream>
#include <ios>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "aot/compile.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/variable.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"

namespace cotan::testing {

// Writes the model into the folder of the test and returns its path. The test fails if it could not be compiled.
inline std::string WriteArtifact(const std::string& name, const absl::StatusOr<aot::CompiledModel>& model) {
  std::string path = absl::StrCat(::testing::TempDir(), "/", name, ".cotan");
  EXPECT_TRUE(model.ok()) << model.status();
  if (model.ok()) std::ofstream(path, std::ios::binary) << model->bytes();
  return path;
}

// The method "forward" of an artifact, in a session of its own.
struct Loaded {
  explicit Loaded(const std::string& path)
      : session(*Session::Create(*Program::Load(path), {.kernels = &CpuKernels(), .threads = 1})),
        function(*Function::Create(session, "forward")) {}

  // Returns the first result. The test fails if the call fails.
  Variable operator()(const std::vector<Variable>& arguments) {
    const auto results = function.Call(arguments);
    EXPECT_TRUE(results.ok()) << results.status();
    return std::get<Variable>((*results)[0]);
  }

  Session session;
  Function function;
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_AUTOGRAD_LOADED_H_
