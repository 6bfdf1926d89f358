// SPDX-License-Identifier: Apache-2.0

// Plans and runs random valid programs, and compares them with the reference kernels, op by op without shared memory:
// results, states, arguments and prints are equal. The input makes the choices of valid_program.h and of the calls:
// values of the dynamic dimension, layouts of arguments, uses of results, donated arguments, threads.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/layout.h"
#include "kernels/testing/host_tensor.h"
#include "runtime/execution/executable.h"
#include "runtime/testing/program_builder.h"
#include "runtime/testing/test_kernels.h"
#include "serialization/schema/tensor_type.h"
#include "testing/fuzz/choices.h"
#include "testing/fuzz/fuzz_target.h"
#include "testing/fuzz/method_evaluator.h"
#include "testing/fuzz/method_writer.h"
#include "testing/fuzz/valid_program.h"
#include "testing/fuzz/wire_mutator.h"

namespace cotan::testing {
namespace {

using serialization::Method;
using serialization::TensorType;

void RequireOk(const absl::Status& status) { Require(status.ok(), status.ToString()); }

template <typename T>
T Required(absl::StatusOr<T> value) {
  RequireOk(value.status());
  return *std::move(value);
}

// Returns a row-major tensor of integers in [-3, 3], or of bools.
std::shared_ptr<const HostTensor> RandomIntegers(DType dtype, absl::Span<const int64_t> sizes,
                                                 std::mt19937_64& random) {
  auto tensor = std::make_shared<HostTensor>(dtype, sizes);
  std::vector<double> values(static_cast<size_t>(tensor->numel()));
  for (double& value : values) {
    value = dtype == DType::kBool ? static_cast<double>(random() % 2) : static_cast<double>(random() % 7) - 3;
  }
  tensor->SetValues(values);
  return tensor;
}

// Returns a tensor of the runtime with these elements and this layout. Gaps are filled with ones.
Tensor ToTensor(const HostTensor& values, const StridedLayout& layout) {
  HostTensor strided(values.dtype(), layout);
  strided.SetValues(values.Values());
  Tensor tensor = Required(Tensor::EmptyStrided(values.dtype(), layout));
  if (!strided.bytes().empty()) std::memcpy(tensor.address(), strided.data(), strided.bytes().size());
  return tensor;
}

std::vector<double> ValuesOf(const Tensor& tensor) {
  HostTensor copy(tensor.dtype(), tensor.layout());
  if (!copy.bytes().empty()) std::memcpy(copy.data(), tensor.address(), copy.bytes().size());
  return copy.Values();
}

void RequireEqual(const std::vector<double>& actual, const HostTensor& expected, const std::string& what) {
  Require(actual == expected.Values(), what + " has the elements of the reference");
}

// A program with its states, in the runtime and in the reference.
class Comparison {
 public:
  Comparison(std::shared_ptr<const Program> program, Choices& choices, uint64_t seed)
      : program_(std::move(program)), choices_(choices), random_(seed) {
    effects_.Set(EffectKind::kPrint, [this](const EffectEvent& event) {
      printed_.push_back(ValuesOf(event.value));
      return absl::OkStatus();
    });
    for (const auto& state : program_->artifact().states()) {
      const StridedLayout layout = Required(DenseLayout(state.type(), {}));
      expected_states_.push_back(RandomIntegers(ToDType(state.type().dtype()), layout.sizes, random_));
      states_.push_back(ToTensor(*expected_states_.back(), layout));
    }
  }

  // Calls a method; returns the number of its steps.
  int Call() {
    const auto index = static_cast<int>(choices_.Below(static_cast<size_t>(program_->artifact().methods_size())));
    const Method& method = program_->method(index);
    const DimVector symbols = {static_cast<int64_t>(1 + choices_.Below(kMaxSymbol))};
    const ScheduleOptions options = RandomOptions(method);
    const ExecutionTarget target = {
        .kernels = &TestKernels(), .device = &HostDevice(), .threads = choices_.OneIn(8) ? 2 : 1, .effects = &effects_};
    const auto executable = Required(Executable::Make(*program_, index, symbols, target, options));
    const DenseTensors inputs = RandomInputs(method, symbols);
    MethodResults expected = Required(EvaluateMethod(method, symbols, inputs, expected_states_));
    for (size_t i = 0; i < options.results.size(); ++i) {
      const ResultRequest& request = options.results[i];
      if (request.use != ResultUse::kWriteBack) continue;
      expected.inputs[static_cast<size_t>(request.input)] = expected.outputs[i];
    }
    const std::vector<Tensor> arguments = Arguments(inputs, *executable);
    const std::vector<Tensor> results = Run(*executable, arguments);
    CheckResults(executable->plan(), expected, arguments, results);
    CheckArguments(options, expected, arguments);
    CheckStates(expected);
    CheckPrints(expected);
    return static_cast<int>(executable->plan().steps.size());
  }

 private:
  static bool SameType(const TensorType& a, const TensorType& b) {
    return a.dtype() == b.dtype() && std::equal(a.sizes().begin(), a.sizes().end(), b.sizes().begin(), b.sizes().end());
  }

  // Results that are returned, saved, written to an argument of the same type, or not used; or arguments that may be
  // overwritten.
  ScheduleOptions RandomOptions(const Method& method) {
    ScheduleOptions options;
    std::vector<bool> written(static_cast<size_t>(method.inputs_size()));
    for (const auto& update : method.input_updates()) written[update.input()] = true;
    if (choices_.OneIn(2)) {
      for (size_t i = 0; i < written.size(); ++i) {
        if (!written[i] && choices_.OneIn(2)) options.donated.push_back(static_cast<int>(i));
      }
      return options;
    }
    constexpr ResultUse kUses[] = {ResultUse::kReturn, ResultUse::kSave, ResultUse::kSkip, ResultUse::kWriteBack};
    for (const uint32_t output : method.outputs()) {
      ResultRequest request = {.use = kUses[choices_.Below(4)]};
      if (request.use == ResultUse::kWriteBack) {
        request = {};
        const TensorType& type = method.values(static_cast<int>(output)).type();
        for (int i = 0; i < method.inputs_size() && request.use == ResultUse::kReturn; ++i) {
          const TensorType& target = method.values(static_cast<int>(method.inputs(i))).type();
          if (written[static_cast<size_t>(i)] || !SameType(type, target)) continue;
          request = {.use = ResultUse::kWriteBack, .input = i};
          written[static_cast<size_t>(i)] = true;
        }
      }
      options.results.push_back(request);
    }
    return options;
  }

  DenseTensors RandomInputs(const Method& method, const DimVector& symbols) {
    DenseTensors inputs;
    for (const uint32_t input : method.inputs()) {
      const TensorType& type = method.values(static_cast<int>(input)).type();
      inputs.push_back(RandomIntegers(ToDType(type.dtype()), Required(EvaluateSizes(type.sizes(), symbols)), random_));
    }
    return inputs;
  }

  // Returns the arguments in the planned or in other layouts.
  std::vector<Tensor> Arguments(const DenseTensors& inputs, const Executable& executable) {
    std::vector<Tensor> arguments;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const StridedLayout planned = executable.plan().inputs[i].layout;
      const bool gaps = choices_.OneIn(2);
      arguments.push_back(ToTensor(
          *inputs[i], choices_.OneIn(4) ? RandomLayout(planned.sizes, random_, gaps, /*expand=*/false) : planned));
    }
    return arguments;
  }

  // Runs the plan in an arena whose bytes are NaN, so that a step that reads what no step has written is detected.
  std::vector<Tensor> Run(Executable& executable, const std::vector<Tensor>& arguments) {
    const Plan& plan = executable.plan();
    const auto arena = Required(Storage::Allocate(HostDevice(), static_cast<size_t>(plan.arena_bytes)));
    if (plan.arena_bytes > 0) std::memset(arena->data(), 0xff, static_cast<size_t>(plan.arena_bytes));
    std::vector<void*> states;
    for (const Tensor& state : states_) states.push_back(state.address());
    executable.Bind({.arena = arena->data(), .host_arena = nullptr, .states = states}, /*generation=*/1);
    for (size_t i = 0; i < arguments.size(); ++i) RequireOk(executable.SetInput(static_cast<int>(i), arguments[i]));
    std::vector<Tensor> results(plan.outputs.size());
    for (size_t i = 0; i < results.size(); ++i) {
      if (plan.places[i].kind != ResultBuffer::Kind::kOwn) continue;
      RequireOk(executable.SetOutput(static_cast<int>(i), results[i]));
    }
    printed_.clear();
    RequireOk(executable.Run());
    return results;
  }

  static void CheckResults(const Plan& plan, const MethodResults& expected, const std::vector<Tensor>& arguments,
                           const std::vector<Tensor>& results) {
    for (size_t i = 0; i < results.size(); ++i) {
      const ResultBuffer place = plan.places[i];
      const auto from = static_cast<size_t>(place.index);
      const std::string what = absl::StrCat("result ", i);
      if (place.kind == ResultBuffer::Kind::kOwn) RequireEqual(ValuesOf(results[i]), *expected.outputs[i], what);
      if (place.kind == ResultBuffer::Kind::kResult) RequireEqual(ValuesOf(results[from]), *expected.outputs[i], what);
      if (place.kind == ResultBuffer::Kind::kInput) RequireEqual(ValuesOf(arguments[from]), *expected.outputs[i], what);
    }
  }

  static void CheckArguments(const ScheduleOptions& options, const MethodResults& expected,
                             const std::vector<Tensor>& arguments) {
    for (size_t i = 0; i < arguments.size(); ++i) {
      const auto& donated = options.donated;
      if (std::find(donated.begin(), donated.end(), static_cast<int>(i)) != donated.end()) continue;
      RequireEqual(ValuesOf(arguments[i]), *expected.inputs[i], absl::StrCat("argument ", i));
    }
  }

  void CheckStates(const MethodResults& expected) {
    for (size_t i = 0; i < states_.size(); ++i) {
      RequireEqual(ValuesOf(states_[i]), *expected.states[i], absl::StrCat("state ", i));
    }
    expected_states_ = expected.states;
  }

  void CheckPrints(const MethodResults& expected) const {
    Require(printed_ == expected.effects, "prints have the elements of the reference, in order");
  }

  const std::shared_ptr<const Program> program_;
  Choices& choices_;
  std::mt19937_64 random_;
  EffectHandlers effects_;
  std::vector<std::vector<double>> printed_;
  DenseTensors expected_states_;
  std::vector<Tensor> states_;
};

}  // namespace

bool RunInput(absl::string_view input) {
  Choices choices(input);
  const auto program = Required(Program::LoadBytes(ValidProgram(choices).Bytes()));
  Comparison comparison(program, choices, Crc32c(input));
  int steps = 0;
  for (size_t calls = 1 + choices.Below(3); calls > 0; --calls) steps += comparison.Call();
  return steps >= 4;
}

// Changes bytes, or makes a new input.
std::string MutateInput(absl::string_view input, std::mt19937_64& random) {
  if (random() % 4 != 0) return MutateBytes(input, random);
  std::string bytes(16 + random() % 240, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

std::vector<std::string> SeedInputs() {
  std::mt19937_64 random(1);
  std::vector<std::string> seeds;
  while (seeds.size() < 16) {
    std::string seed(200, '\0');
    for (char& byte : seed) byte = static_cast<char>(random());
    if (RunInput(seed)) seeds.push_back(std::move(seed));
  }
  return seeds;
}

}  // namespace cotan::testing
