// SPDX-License-Identifier: Apache-2.0

#include "testing/ops/op_trial.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <exception>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "aot/capture/argument.h"
#include "testing/ops/compiled_function.h"
#include "testing/ops/plausible_arguments.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using Kind = OpTrial::Verdict;

// Progress that the child reports before it calls eager and the compiler.
constexpr char kEager = 'e', kCompiler = 'c';

bool TakesTensors(const c10::FunctionSchema& schema) {
  for (const c10::Argument& argument : schema.arguments()) {
    const c10::Type& type = *argument.type();
    if (type.isSubtypeOf(*c10::TensorType::get()) || type.isSubtypeOf(*c10::ListType::ofTensors())) return true;
  }
  return false;
}

// Returns whether two runs give different results.
bool IsRandom(const c10::OperatorHandle& op) {
  const std::string& name = op.schema().name();
  return op.hasTag(at::Tag::nondeterministic_seeded) || absl::StrContains(name, "empty") ||
         absl::StrContains(name, "resize") || absl::StrContains(name, "rand") || absl::StrContains(name, "dropout");
}

// Returns the first guess that LibTorch accepts.
std::optional<OpArguments> AcceptedArguments(const c10::OperatorHandle& handle, const std::string& op, uint64_t seed) {
  for (const Guess& guess : Guesses()) {
    at::manual_seed(seed);
    const OpArguments arguments = PlausibleArguments(handle.schema(), guess);
    std::vector<at::Tensor> inputs;
    const aot::TensorFunction function = FunctionOf(op, arguments, inputs);
    for (at::Tensor& input : inputs) input = input.clone();
    try {
      const at::NoGradGuard no_grad;
      function(inputs);
      return arguments;
    } catch (const std::exception&) {
      continue;  // the next guess
    }
  }
  return std::nullopt;
}

bool NamesAnOp(const std::string& op, const std::string& message) {
  const std::string name = op.substr(5, op.find('.', 5) - 5);
  // The message may instead name the implementation of a result without storage (SparseTensorImpl).
  return absl::StrContains(message, "aten") || absl::StrContains(message, name) ||
         absl::StrContains(message, "TensorImpl");
}

// Returns the verdict for the outcome of a function.
OpTrial Summary(const std::string& op, const FunctionOutcome& outcome) {
  const std::pair<const char*, const Judgement*> parts[] = {{"forward: ", &outcome.forward},
                                                            {"backward: ", &outcome.backward}};
  OpTrial trial{Kind::kAgrees, ""};
  for (const auto& [part, judgement] : parts) {
    const std::string message = absl::StrCat(part, judgement->message);
    if (judgement->verdict == Verdict::kDiffers) return {Kind::kDiffers, message};
    if (judgement->verdict == Verdict::kRefused || judgement->verdict == Verdict::kFailed) {
      if (!NamesAnOp(op, message)) return {Kind::kNoName, message};
      trial = {Kind::kRefused, message};
    }
    if (judgement->verdict == Verdict::kRefusedByLibTorch) return {Kind::kRefusedByLibTorch, message};
  }
  return trial;
}

void Tell(int pipe, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(pipe, text.data(), text.size());
    if (written <= 0) return;
    text.remove_prefix(static_cast<size_t>(written));
  }
}

// Writes 'e', then 'c', then the verdict and the message.
void RunChild(const std::string& op, uint64_t seed, int pipe) {
  at::set_num_threads(1);
  const c10::OperatorHandle handle = aot::FindOperator(op).value();
  Tell(pipe, std::string(1, kEager));
  const std::optional<OpArguments> accepted = AcceptedArguments(handle, op, seed);
  at::manual_seed(seed);
  const OpArguments arguments = accepted ? *accepted : PlausibleArguments(handle.schema(), Guesses()[0]);
  Tell(pipe, std::string(1, kCompiler));
  OpTrial trial;
  try {
    std::vector<at::Tensor> inputs;
    const aot::TensorFunction function = FunctionOf(op, arguments, inputs);
    trial = Summary(op, RunFunctionBothWays(function, inputs, {.tolerance = kModelState, .random = IsRandom(handle)}));
    if (!accepted) {
      if (CompileOnly(function, inputs, /*with_gradients=*/true).ok())
        trial.message = absl::StrCat("compiled, but LibTorch says ", trial.message);
    }
  } catch (const std::exception& e) {
    trial = {Kind::kThrew, e.what()};
  } catch (...) {
    trial = {Kind::kThrew, "no std::exception"};
  }
  Tell(pipe, absl::StrCat(std::string(1, static_cast<char>('0' + static_cast<int>(trial.verdict))), trial.message));
}

std::string ReadAll(int pipe) {
  std::string text;
  char buffer[4096];
  for (ssize_t n = 0; (n = read(pipe, buffer, sizeof(buffer))) > 0;) text.append(buffer, static_cast<size_t>(n));
  return text;
}

}  // namespace

const char* VerdictName(OpTrial::Verdict verdict) {
  switch (verdict) {
    case Kind::kAgrees:
      return "agrees";
    case Kind::kRefused:
      return "refused";
    case Kind::kRefusedByLibTorch:
      return "refused by LibTorch";
    case Kind::kCrashedInLibTorch:
      return "crashed in LibTorch";
    case Kind::kDiffers:
      return "DIFFERS";
    case Kind::kNoName:
      return "NAMES NO OP";
    case Kind::kThrew:
      return "THREW";
    case Kind::kCrashed:
      return "CRASHED";
  }
  return "";
}

bool IsAllowed(OpTrial::Verdict verdict) { return verdict <= Kind::kCrashedInLibTorch; }

std::vector<std::string> OpsOfTensors() {
  std::vector<std::string> ops;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto handle = c10::Dispatcher::singleton().findSchema(name);
    if (handle.has_value() && absl::StartsWith(handle->schema().name(), "aten::") && TakesTensors(handle->schema())) {
      ops.push_back(aot::NodeOpName(handle->schema()));
    }
  }
  std::sort(ops.begin(), ops.end());
  return ops;
}

std::string WhyNotTried(const std::string& op) {
  static const auto& reasons = *new std::map<std::string, std::string>{
      {"_convert_indices_from_coo_to_csr", "LibTorch writes out of bounds"},
      {"_efficientzerotensor", "the result has no memory, which no op is to blame for"},
      {"_neg_view", "LibTorch's result has its sign beside its memory"},
      {"_native_batch_norm_legit", "results that are given have other sizes"},
      {"_weight_norm", "LibTorch reads norms g of other sizes as if they were a vector"},
      {"bernoulli", "LibTorch's random results require grad"},
      {"chalf", "the result's dtype is refused without an op"},
      {"cumprod_backward", "the result is not that of the input"},
      {"linalg_cholesky_ex", "the factor of a matrix that is not positive definite is not defined"},
      {"log_sigmoid_backward", "LibTorch's buffer is its own"},
      {"log_sigmoid_forward", "LibTorch's buffer is its own"},
      {"logical_and_", "LibTorch lets gradients through an op that has none"},
      {"logical_not_", "LibTorch lets gradients through an op that has none"},
      {"logical_or_", "LibTorch lets gradients through an op that has none"},
      {"logical_xor_", "LibTorch lets gradients through an op that has none"},
      {"max_pool3d_with_indices_backward", "the gradient has other sizes than the result"},
      {"rand_like", "a given result: LibTorch draws from a generator of its own"},
      {"randint", "a given result: LibTorch draws from a generator of its own"},
      {"randint_like", "a given result: LibTorch draws from a generator of its own"},
      {"randn_like", "a given result: LibTorch draws from a generator of its own"},
      {"randperm", "a given result: LibTorch draws from a generator of its own"},
      {"reflection_pad1d_backward", "the gradient has other sizes than the result"},
      {"replication_pad1d_backward", "the gradient has other sizes than the result"},
      {"slice_inverse", "it looks beyond the memory of the tensor, which no op is to blame for"},
      {"unsafe_split_with_sizes", "given results have other sizes"},
      {"split_with_sizes_copy", "given results have other sizes"},
      {"set_", "the result has too little memory, which no op is to blame for"},
      {"normal", "LibTorch's random results require grad"},
  };
  const auto found = reasons.find(op.substr(5, op.find('.', 5) - 5));
  return found == reasons.end() ? "" : found->second;
}

OpTrial TryOp(const std::string& op, uint64_t seed, int limit_seconds) {
  int ends[2];
  std::fflush(nullptr);  // or the child would print it again
  if (pipe(ends) != 0) return {Kind::kCrashed, "no pipe"};
  const pid_t child = fork();
  if (child < 0) return {Kind::kCrashed, "no process"};
  if (child == 0) {
    close(ends[0]);
    alarm(static_cast<unsigned>(limit_seconds));
    RunChild(op, seed, ends[1]);
    _exit(0);
  }
  close(ends[1]);
  const std::string told = ReadAll(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (told.size() >= 3) return {static_cast<Kind>(told[2] - '0'), told.substr(3)};
  const std::string how = WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status)) : "no answer";
  return {told.size() >= 2 ? Kind::kCrashed : Kind::kCrashedInLibTorch, how};
}

}  // namespace cotan::testing
