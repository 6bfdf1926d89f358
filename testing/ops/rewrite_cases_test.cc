// SPDX-License-Identifier: Apache-2.0

// Checks that each op that tracing rewrites has a case under its name.
#include <ATen/core/dispatch/Dispatcher.h>

#include <set>
#include <string>
#include <vector>

#include "aot/capture/dispatch_keys.h"
#include "aot/decompositions/rewrites.h"
#include "gtest/gtest.h"
#include "testing/ops/op_cases.h"

namespace cotan::testing {
namespace {

// Ops that other tests cover, each with the reason why it has no case.
struct Exception {
  const char* op;
  const char* reason;
};
constexpr Exception kExceptions[] = {
    {"_assert_async.default", "returns nothing: //aot/capture:assert_ops_test"},
    {"_assert_async.msg", "returns nothing: //aot/capture:assert_ops_test"},
    {"_assert_scalar.default", "returns nothing: //aot/capture:assert_ops_test"},
    {"_functional_assert_async.msg", "takes a token: //aot/capture:assert_ops_test"},
    {"_functional_assert_scalar.default", "takes a token: //aot/capture:assert_ops_test"},
    {"_linalg_check_errors.default", "returns nothing; the cases of linalg_* call it"},
    {"_print.default", "returns nothing: //aot/capture:assert_ops_test"},
    {"gru.data", "lengths of sequences are constants of a program: recurrent_test"},
    {"lstm.data", "lengths of sequences are constants of a program: recurrent_test"},
    {"rnn_relu.data", "lengths of sequences are constants of a program: recurrent_test"},
    {"rnn_tanh.data", "lengths of sequences are constants of a program: recurrent_test"},
};

// Returns the names ("add.Tensor") of the rewritten ops that this LibTorch registers.
std::set<std::string> RewrittenOps() {
  aot::RegisterRewrites();
  std::set<std::string> ops;
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto handle = dispatcher.findSchema(name);
    if (!handle.has_value() || name.name.rfind("aten::", 0) != 0) continue;
    if (!handle->hasKernelForDispatchKey(aot::kRewriteKey)) continue;
    ops.insert(name.name.substr(6) + "." + (name.overload_name.empty() ? "default" : name.overload_name));
  }
  return ops;
}

std::set<std::string> OpsWithCases() {
  std::vector<OpCaseGroup> groups = OpCases();
  groups.push_back(TracedOpCases());
  groups.push_back(RandomOpCases());
  std::set<std::string> ops;
  for (const OpCaseGroup& group : groups) {
    for (const OpCase& c : group.cases) ops.insert(c.op);
  }
  return ops;
}

TEST(RewriteCasesTest, EachRewrittenOpHasACaseOrAReason) {
  const std::set<std::string> cases = OpsWithCases();
  std::set<std::string> exceptions;
  for (const Exception& exception : kExceptions) exceptions.insert(exception.op);
  const std::set<std::string> rewritten = RewrittenOps();
  EXPECT_GT(rewritten.size(), 100u);
  for (const std::string& op : rewritten) {
    EXPECT_TRUE(cases.count(op) + exceptions.count(op) == 1)
        << "aten." << op << (cases.count(op) == 0 ? " has no case in op_cases_*.cc" : " has a case and an exception");
  }
  for (const std::string& op : exceptions) EXPECT_EQ(rewritten.count(op), 1u) << op << " is not rewritten";
}

}  // namespace
}  // namespace cotan::testing
