// SPDX-License-Identifier: Apache-2.0

// Calls the C interface in the order that the input describes, one byte per choice, with valid handles, NULL, and
// sizes, names and texts of any content. Choices are taken in statements of their own: compilers evaluate the arguments
// of a call in different orders.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "capi/test_handles.h"
#include "gtest/gtest.h"
#include "include/cotan.h"
#include "runtime/testing/program_builder.h"
#include "testing/fuzz/choices.h"
#include "testing/fuzz/fuzz_target.h"
#include "testing/fuzz/wire_mutator.h"

namespace cotan::testing {
namespace {

using capi::FreeHandle;
using capi::ProgramHandle;
using capi::SessionHandle;
using capi::TensorHandle;

constexpr std::array<const char*, 10> kNames = {"train_step", "eval", "forward", "backward", "weight",
                                                "bias",       "lr",   "",        "?",        nullptr};

// Returns the bytes of a program whose method "eval" has three numbers as inputs, one of which decides a size.
const std::string& NumbersBytes() {
  static const std::string& bytes = *new std::string([] {
    ProgramBuilder builder;
    auto& symbol = *builder.artifact().add_symbols();
    symbol.set_name("count");
    symbol.set_min(1);
    symbol.set_max(64);
    MethodBuilder method = builder.AddMethod("eval");
    const uint32_t factor = method.Input("factor", DType::kFloat32, {});
    method.Input("count", DType::kInt64, {"s0", "0"});
    method.Input("flag", DType::kBool, {});
    method.Output("squares", method.Pointwise({"s0"}, {factor}, [](auto& b) { return b.Mul(0, 0); }));
    return builder.Bytes();
  }());
  return bytes;
}

// Returns the path of the file that a sequence may write. It is in memory where possible: a disk takes milliseconds to
// sync a file.
const char* FilePath() {
  static const std::string& path = *new std::string(
      absl::StrCat(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ::testing::TempDir(), "/cotan_c_interface_", getpid()));
  return path.c_str();
}

// Returns the program that each sequence begins with. Programs are immutable, so that sequences share it.
cotan_program* FirstProgram() {
  static cotan_program* const program = capi::LoadLinearRegression().release();
  return program;
}

// Choices of arguments.
class ArgumentChoices : public Choices {
 public:
  using Choices::Choices;

  int64_t Number() {
    constexpr int64_t kLimits[] = {-1, INT64_MIN, INT64_MAX, INT64_MAX / 2, int64_t{1} << 48, 100};
    const uint8_t byte = Next();
    return byte < 250 ? byte % 8 : kLimits[byte - 250];
  }
  const char* Name() { return kNames[Below(kNames.size())]; }
  // Returns the path of the file, one that does not exist, or NULL.
  const char* Path() {
    const uint8_t byte = Next() % 8;
    if (byte == 0) return nullptr;
    return byte == 1 ? "/nowhere/file" : FilePath();
  }
};

// The handles of one sequence, and its file. At most eight handles of a kind live at a time.
class Caller {
 public:
  explicit Caller(absl::string_view input) : choices_(input) {}
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;
  ~Caller() { std::remove(FilePath()); }

  // Calls functions until the input ends. Returns whether one call succeeded.
  bool Run() {
    while (!choices_.done()) Call();
    return succeeded_ > 0;
  }

 private:
  void Call() {
    static constexpr void (Caller::*kCalls[])() = {&Caller::CreateSession,
                                                   &Caller::CreateTensor,
                                                   &Caller::BorrowTensor,
                                                   &Caller::Free,
                                                   &Caller::RunMethod,
                                                   &Caller::RunMethod,
                                                   &Caller::ReadState,
                                                   &Caller::SetState,
                                                   &Caller::ReadGradient,
                                                   &Caller::UseHyperparameter,
                                                   &Caller::UseRng,
                                                   &Caller::ReadTensor,
                                                   &Caller::ReadPlans,
                                                   &Caller::ReadProgram,
                                                   &Caller::LoadDamagedProgram,
                                                   &Caller::LoadCheckpoint,
                                                   &Caller::SaveCheckpoint,
                                                   &Caller::RunTimed,
                                                   &Caller::SummarizePlan,
                                                   &Caller::DescribeProgram,
                                                   &Caller::MakeNumber,
                                                   &Caller::LoadProgramFile,
                                                   &Caller::LendProgram,
                                                   &Caller::ReadNames};
    (this->*kCalls[choices_.Below(std::size(kCalls))])();
  }

  // A failed call has a text and a code.
  void Succeeded(cotan_status status) {
    if (status == COTAN_OK) {
      ++succeeded_;
      return;
    }
    Require(cotan_last_error()[0] != '\0', "a call that fails has a text");
    Require(cotan_last_error_code() == status, "the code of the last error is that of the call");
  }

  cotan_program* Program() { return choices_.Next() % 16 == 0 ? nullptr : program_; }
  cotan_session* Session() {
    const uint8_t choice = choices_.Next();
    return sessions_.empty() || choice % 16 == 0 ? nullptr : sessions_[choice % sessions_.size()].get();
  }
  cotan_tensor* Tensor() {
    const uint8_t choice = choices_.Next();
    return tensors_.empty() || choice % 16 == 0 ? nullptr : tensors_[choice % tensors_.size()].get();
  }

  // Stores a new tensor of `make` if it succeeds.
  template <typename Make>
  void Keep(const Make& make) {
    cotan_tensor* tensor = nullptr;
    const cotan_status status = make(&tensor);
    Succeeded(status);
    Require((status == COTAN_OK) == (tensor != nullptr), "a tensor is returned if and only if the call succeeds");
    if (tensor != nullptr) tensors_.emplace_back(tensor);
    if (tensors_.size() > 8) tensors_.erase(tensors_.begin());
  }

  void CreateSession() {
    // In a caller's cotan.h the struct may have more fields.
    struct {
      cotan_session_options options = COTAN_SESSION_OPTIONS_INIT;
      std::array<char, 128> newer = {};
    } caller;
    cotan_session_options& options = caller.options;
    options.threads = static_cast<int32_t>(1 + choices_.Next() % 2);
    options.max_plans = static_cast<int32_t>(choices_.Number());
    if (choices_.Next() % 8 == 0) {
      options.struct_size = static_cast<size_t>(choices_.Number());
      caller.newer.fill(static_cast<char>(choices_.Next() % 2));
    }
    const cotan_program* const program = Program();
    const bool has_options = choices_.Next() % 16 != 0;
    cotan_session* session = nullptr;
    Succeeded(cotan_session_create(program, has_options ? &options : nullptr, &session));
    if (session != nullptr) sessions_.emplace_back(session);
    if (sessions_.size() > 8) sessions_.erase(sessions_.begin());
  }

  std::vector<int64_t> Numbers() {
    std::vector<int64_t> numbers(choices_.Next() % 4);
    for (int64_t& number : numbers) number = choices_.Number();
    return numbers;
  }

  void CreateTensor() {
    const std::vector<int64_t> sizes = Numbers();
    const auto dtype = static_cast<cotan_dtype>(choices_.Next() % 16);
    const auto rank = static_cast<int32_t>(choices_.Next() % 16 == 0 ? -1 : static_cast<int>(sizes.size()));
    const bool has_data = choices_.Next() % 2 == 0;
    const size_t bytes = has_data ? choices_.Next() : 0;
    Keep([&](cotan_tensor** out) {
      return cotan_tensor_create(dtype, rank, sizes.data(), has_data ? memory_.data() : nullptr, bytes, out);
    });
  }

  void BorrowTensor() {
    const std::vector<int64_t> sizes = Numbers();
    std::vector<int64_t> strides = Numbers();
    strides.resize(sizes.size(), 1);
    const auto dtype = static_cast<cotan_dtype>(choices_.Next() % 16);
    const size_t bytes = choices_.Next();
    const bool has_strides = choices_.Next() % 2 != 0;
    Keep([&](cotan_tensor** out) {
      return cotan_tensor_borrow(dtype, static_cast<int32_t>(sizes.size()), sizes.data(),
                                 has_strides ? strides.data() : nullptr, memory_.data(), bytes, nullptr, nullptr, out);
    });
  }

  void Free() {
    if (choices_.Next() % 2 == 0) {
      if (!tensors_.empty()) tensors_.erase(tensors_.begin());
    } else if (!sessions_.empty()) {
      sessions_.erase(sessions_.begin());
    }
  }

  // Runs a method by `run`, which returns the status; its results are new tensors or, if `reuse`, may be given ones.
  template <typename RunFunction>
  void RunBy(bool reuse, const RunFunction& run) {
    std::vector<cotan_tensor*> arguments(choices_.Next() % 4);
    for (cotan_tensor*& argument : arguments) argument = Tensor();
    std::vector<cotan_tensor*> given(choices_.Next() % 4);
    for (cotan_tensor*& result : given) result = reuse ? Tensor() : nullptr;
    cotan_session* const session = Session();
    const char* const method = choices_.Name();
    std::vector<cotan_tensor*> results = given;
    Succeeded(run(session, method, arguments, results));
    for (size_t i = 0; i < results.size(); ++i) {
      Require(given[i] == nullptr || results[i] == given[i], "a given result stays the caller's handle");
      if (given[i] != nullptr || results[i] == nullptr) continue;
      Keep([&](cotan_tensor** out) { return *out = results[i], COTAN_OK; });
    }
  }

  void RunMethod() {
    RunBy(/*reuse=*/false, [](cotan_session* session, const char* method, const auto& arguments, auto& results) {
      return cotan_session_run(session, method, arguments.data(), arguments.size(), results.data(), results.size());
    });
  }

  void RunTimed() {
    std::array<int64_t, 8> times;
    times.fill(-1);
    const size_t room = choices_.Below(times.size() + 1);
    RunBy(/*reuse=*/true, [&](cotan_session* session, const char* method, const auto& arguments, auto& results) {
      size_t num_steps = room;
      const cotan_status status =
          cotan_session_run_timed(session, method, arguments.data(), arguments.size(), results.data(), results.size(),
                                  room == 0 ? nullptr : times.data(), &num_steps);
      Require(status == COTAN_OK || num_steps == room, "a run that fails writes no number of steps");
      const size_t num_written = status == COTAN_OK ? std::min(room, num_steps) : 0;
      const auto end = times.begin() + static_cast<std::ptrdiff_t>(num_written);
      Require(std::all_of(times.begin(), end, [](int64_t time) { return time >= 0; }), "each step has a time");
      Require(std::all_of(end, times.end(), [](int64_t time) { return time == -1; }), "no other time is written");
      return status;
    });
  }

  void ReadState() {
    cotan_session* const session = Session();
    const char* const name = choices_.Name();
    Keep([&](cotan_tensor** out) { return cotan_session_get_state(session, name, out); });
  }

  void SetState() {
    cotan_session* const session = Session();
    const char* const name = choices_.Name();
    Succeeded(cotan_session_set_state(session, name, Tensor()));
  }

  void ReadGradient() {
    cotan_session* const session = Session();
    const char* const name = choices_.Name();
    Keep([&](cotan_tensor** out) { return cotan_session_gradient(session, name, out); });
  }

  void LoadCheckpoint() {
    cotan_session* const session = Session();
    Succeeded(cotan_session_load_checkpoint(session, choices_.Path()));
  }

  void SaveCheckpoint() {
    cotan_session* const session = Session();
    const char* const path = choices_.Path();
    const cotan_status status = cotan_session_save_checkpoint(session, path);
    Succeeded(status);
    if (status != COTAN_OK) return;
    Require(cotan_session_load_checkpoint(session, path) == COTAN_OK, "saved states can be loaded");
  }

  void UseHyperparameter() {
    double value = 0.5;
    cotan_session* const session = Session();
    const auto group = static_cast<int32_t>(choices_.Number());
    Succeeded(cotan_session_get_hyperparameter(session, choices_.Name(), group, &value));
    Succeeded(cotan_session_set_hyperparameter(session, choices_.Name(), group, value * 2));
  }

  void UseRng() {
    int64_t seed = 0, offset = 0;
    cotan_session* const session = Session();
    Succeeded(cotan_session_get_rng(session, &seed, &offset));
    seed = choices_.Number();
    offset = choices_.Number();
    Succeeded(cotan_session_set_rng(session, seed, offset));
  }

  void ReadTensor() {
    cotan_tensor* const tensor = Tensor();
    cotan_tensor_info info = COTAN_TENSOR_INFO_INIT;
    Succeeded(cotan_tensor_get_info(tensor, &info));
    std::array<char, 256> elements{};
    Succeeded(cotan_tensor_read(tensor, elements.data(), choices_.Next()));
  }

  void ReadPlans() {
    cotan_session* const session = Session();
    int64_t number = 0;
    Succeeded(cotan_session_state_bytes(session, &number));
    Succeeded(cotan_session_arena_bytes(session, &number));
    Succeeded(cotan_session_num_plans_made(session, &number));
    char* text = nullptr;
    Succeeded(cotan_session_plan_text(session, choices_.Name(), &text));
    cotan_string_free(text);
  }

  void SummarizePlan() {
    cotan_plan_summary summary = COTAN_PLAN_SUMMARY_INIT;
    if (choices_.Next() % 8 == 0) summary.struct_size = static_cast<size_t>(choices_.Number());
    cotan_session* const session = Session();
    Succeeded(cotan_session_plan_summary(session, choices_.Name(), &summary));
    Succeeded(cotan_session_synchronize(session));
  }

  void ReadProgram() {
    cotan_program* const program = Program();
    size_t index = static_cast<size_t>(choices_.Number());
    cotan_method_info method = COTAN_METHOD_INFO_INIT;
    Succeeded(cotan_program_method(program, index, &method));
    cotan_state_info state = COTAN_STATE_INFO_INIT;
    Succeeded(cotan_program_state(program, index, &state));
    cotan_value_info value = COTAN_VALUE_INFO_INIT;
    Succeeded(cotan_program_input(program, index, static_cast<size_t>(choices_.Number()), &value));
    Succeeded(cotan_program_find_method(program, choices_.Name(), &index));
  }

  // An index is accepted if and only if it is below the count.
  void Described(cotan_status status, size_t index, size_t count) {
    Succeeded(status);
    Require((status == COTAN_OK) == (index < count), "a program describes as much as it counts");
  }

  void DescribeProgram() {
    cotan_program* const program = Program();
    size_t index = static_cast<size_t>(choices_.Number());
    cotan_method_info method = COTAN_METHOD_INFO_INIT;
    Described(cotan_program_method(program, index, &method), index, cotan_program_num_methods(program));
    cotan_state_info state = COTAN_STATE_INFO_INIT;
    Described(cotan_program_state(program, index, &state), index, cotan_program_num_states(program));
    cotan_dimension_info dimension = COTAN_DIMENSION_INFO_INIT;
    Described(cotan_program_dimension(program, index, &dimension), index, cotan_program_num_dimensions(program));
    const auto output = static_cast<size_t>(choices_.Number());
    cotan_value_info value = COTAN_VALUE_INFO_INIT;
    Described(cotan_program_output(program, index, output, &value), output, method.num_outputs);
    const cotan_status found = cotan_program_find_state(program, choices_.Name(), &index);
    Succeeded(found);
    Require(found != COTAN_OK || index < cotan_program_num_states(program), "a state that is found is one of those");
  }

  void MakeNumber() {
    cotan_program* const program = Program();
    const auto method = static_cast<size_t>(choices_.Number());
    const auto input = static_cast<size_t>(choices_.Number());
    const uint8_t kind = choices_.Next() % 3;
    const int64_t value = choices_.Number();
    Keep([&](cotan_tensor** out) {
      if (kind == 0) return cotan_program_number_double(program, method, input, static_cast<double>(value) / 2, out);
      if (kind == 1) return cotan_program_number_int64(program, method, input, value, out);
      return cotan_program_number_bool(program, method, input, static_cast<int32_t>(value), out);
    });
  }

  void Damage(std::string& bytes) {
    const size_t high = choices_.Next(), low = choices_.Next();
    bytes[(high * 256 + low) % bytes.size()] ^= static_cast<char>(1 + choices_.Next() % 8);
  }

  // Returns the bytes of one of two programs, in one of four cases with a damaged byte.
  std::string ProgramBytes() {
    const uint8_t choice = choices_.Next() % 8;
    std::string bytes = choice < 4 ? NumbersBytes() : capi::LinearRegressionBytes();
    if (choice % 4 == 3) Damage(bytes);
    return bytes;
  }

  // Frees a program that was loaded, or uses it from now on; sessions keep theirs.
  void KeepProgram(cotan_status status, cotan_program* program) {
    Succeeded(status);
    Require((status == COTAN_OK) == (program != nullptr), "a program is returned if and only if the call succeeds");
    ProgramHandle loaded(program);
    if (loaded == nullptr || choices_.Next() % 2 != 0) return;
    loaded_ = std::move(loaded);
    program_ = loaded_.get();
  }

  void LoadDamagedProgram() {
    std::string bytes = capi::LinearRegressionBytes();
    Damage(bytes);
    const size_t size = choices_.Next() % 4 == 0 ? bytes.size() / 2 : bytes.size();
    cotan_program* program = nullptr;
    const cotan_status status = cotan_program_load_copy(bytes.data(), size, choices_.Name(), &program);
    KeepProgram(status, program);
  }

  // Loads the file, as it is or after a program was written to it.
  void LoadProgramFile() {
    if (choices_.Next() % 2 == 0) {
      std::remove(FilePath());  // programs that were loaded from it have mapped it
      std::ofstream(FilePath(), std::ios::binary) << ProgramBytes();
    }
    cotan_program* program = nullptr;
    const cotan_status status = cotan_program_load(choices_.Path(), &program);
    KeepProgram(status, program);
  }

  // Lends bytes that the last user of the program gives back.
  void LendProgram() {
    auto bytes = std::make_unique<std::string>(ProgramBytes());
    cotan_program* program = nullptr;
    const cotan_status status = cotan_program_load_memory(
        bytes->data(), bytes->size(), choices_.Name(), [](void* lent) { delete static_cast<std::string*>(lent); },
        bytes.get(), &program);
    if (status == COTAN_OK) (void)bytes.release();
    KeepProgram(status, program);
  }

  void ReadNames() {
    const bool is_small = choices_.Next() % 2 == 0;
    const auto number = static_cast<int32_t>(is_small ? choices_.Next() : choices_.Number());
    Succeeded(cotan_check_abi(static_cast<uint32_t>(number)));
    Require(cotan_check_abi(cotan_abi_version()) == COTAN_OK, "a program of this version may use the library");
    Require(cotan_version()[0] != '\0', "the library has a version");
    Require(cotan_status_name(number)[0] != '\0' && cotan_dtype_name(number)[0] != '\0', "each number has a name");
    Require((cotan_dtype_size(number) > 0) == (number > COTAN_UNDEFINED && number <= COTAN_F8E5M2),
            "known dtypes have a size");
  }

  ArgumentChoices choices_;
  std::array<char, 256> memory_{};
  int succeeded_ = 0;
  cotan_program* program_ = FirstProgram();
  ProgramHandle loaded_;  // `program_` unless that is the first
  std::vector<SessionHandle> sessions_;
  std::vector<TensorHandle> tensors_;
};

}  // namespace

bool RunInput(absl::string_view input) { return Caller(input).Run(); }

std::string MutateInput(absl::string_view input, std::mt19937_64& random) {
  std::string mutated = MutateBytes(input, random);
  if (random() % 4 == 0) mutated.insert(mutated.size(), MutateBytes(input, random));
  return mutated.substr(0, 128);
}

// A session; two tensors, a training step on them and a state; descriptions of the program; hyperparameters and plans;
// a timed step and its plan; a checkpoint, saved and loaded; a program from a file, and names; numbers, and a run on
// them.
std::vector<std::string> SeedInputs() {
  using std::string_literals::operator""s;
  const std::string session = "\0\1\1\2\1\1"s;
  const std::string tensors = "\1\2\2\3\x09\1\1\1\2\2\2\x09\1\1"s;
  const std::string step = "\4\2\2\1\1\1\0"s;
  const std::string numbers = "\x16\0\0\0\x14\1\0\0\0\1\x14\1\0\1\1\3\x14\1\0\2\2\1"s;
  return {session,
          session + tensors + step + "\6\1\4\x0b\1\4\x0c\1\0"s,
          "\x0d\1\1\1\0"s,
          session + "\x09\1\0\6\6\x0a\1\1\1\x0c\1\0"s,
          session + tensors + "\x11\4\2\2\1\1\0\1\0\x12\1\1\0"s,
          session + "\x10\1\2\x0f\1\2"s,
          "\x15\0\4\2\0\x13\1\0\0\4\x17\0\x09"s,
          "\x16\0\0\0"s,
          numbers + session + "\4\3\3\1\2\1\1\1"s};
}

}  // namespace cotan::testing
