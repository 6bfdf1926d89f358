// SPDX-License-Identifier: Apache-2.0

// Calls the C interface in the order that the input describes, one byte per choice, with valid handles, NULL, and
// sizes, names and texts of any content.
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "capi/test_handles.h"
#include "include/cotan.h"
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
};

// The handles of one sequence. At most eight of a kind live at a time.
class Caller {
 public:
  explicit Caller(absl::string_view input) : choices_(input) {
    cotan_program* program = nullptr;
    const std::string& bytes = capi::LinearRegressionBytes();
    Succeeded(cotan_program_load_copy(bytes.data(), bytes.size(), "program", &program));
    program_.reset(program);
  }

  // Calls functions until the input ends. Returns whether one call after the first succeeded.
  bool Run() {
    succeeded_ = 0;
    while (!choices_.done()) Call();
    return succeeded_ > 0;
  }

 private:
  void Call() {
    switch (choices_.Next() % 16) {
      case 0:
        return CreateSession();
      case 1:
        return CreateTensor();
      case 2:
        return BorrowTensor();
      case 3:
        return Free();
      case 4:
      case 5:
        return RunMethod();
      case 6:
        return ReadState();
      case 7:
        return Succeeded(cotan_session_set_state(Session(), choices_.Name(), Tensor()));
      case 8:
        return Keep([&](cotan_tensor** out) { return cotan_session_gradient(Session(), choices_.Name(), out); });
      case 9:
        return UseHyperparameter();
      case 10:
        return UseRng();
      case 11:
        return ReadTensor();
      case 12:
        return ReadPlans();
      case 13:
        return ReadProgram();
      case 14:
        return LoadDamagedProgram();
      default:
        Succeeded(cotan_session_load_checkpoint(Session(), choices_.Name()));
    }
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

  cotan_program* Program() { return choices_.Next() % 16 == 0 ? nullptr : program_.get(); }
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
    cotan_session* session = nullptr;
    Succeeded(cotan_session_create(Program(), choices_.Next() % 16 == 0 ? nullptr : &options, &session));
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
    Keep([&](cotan_tensor** out) {
      return cotan_tensor_borrow(dtype, static_cast<int32_t>(sizes.size()), sizes.data(),
                                 choices_.Next() % 2 == 0 ? nullptr : strides.data(), memory_.data(), bytes, nullptr,
                                 nullptr, out);
    });
  }

  void Free() {
    if (choices_.Next() % 2 == 0) {
      if (!tensors_.empty()) tensors_.erase(tensors_.begin());
    } else if (!sessions_.empty()) {
      sessions_.erase(sessions_.begin());
    }
  }

  void RunMethod() {
    std::vector<cotan_tensor*> arguments(choices_.Next() % 4);
    for (cotan_tensor*& argument : arguments) argument = Tensor();
    std::vector<cotan_tensor*> results(choices_.Next() % 4);
    cotan_session* const session = Session();
    Succeeded(cotan_session_run(session, choices_.Name(), arguments.data(), arguments.size(), results.data(),
                                results.size()));
    for (cotan_tensor* const result : results) {
      if (result != nullptr) Keep([&](cotan_tensor** out) { return *out = result, COTAN_OK; });
    }
  }

  void ReadState() {
    Keep([&](cotan_tensor** out) { return cotan_session_get_state(Session(), choices_.Name(), out); });
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
    Succeeded(cotan_session_set_rng(session, choices_.Number(), choices_.Number()));
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

  void LoadDamagedProgram() {
    std::string bytes = capi::LinearRegressionBytes();
    bytes[(size_t{choices_.Next()} * 256 + choices_.Next()) % bytes.size()] ^=
        static_cast<char>(1 + choices_.Next() % 8);
    cotan_program* program = nullptr;
    Succeeded(cotan_program_load_copy(bytes.data(), choices_.Next() % 4 == 0 ? bytes.size() / 2 : bytes.size(),
                                      choices_.Name(), &program));
    cotan_program_free(program);
  }

  ArgumentChoices choices_;
  std::array<char, 256> memory_{};
  int succeeded_ = 0;
  ProgramHandle program_;
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

// A session; two tensors, a training step on them and a state; descriptions of the program; hyperparameters and plans.
std::vector<std::string> SeedInputs() {
  using std::string_literals::operator""s;
  const std::string session = "\0\1\1\2\1\1"s;
  const std::string tensors = "\1\2\2\3\x09\1\1\1\2\2\2\x09\1\1"s;
  const std::string step = "\4\2\2\1\1\1\0"s;
  return {session, session + tensors + step + "\6\1\4\x0b\1\4\x0c\1\0"s, "\x0d\1\1\1\0"s,
          session + "\x09\1\0\6\6\x0a\1\1\1\x0c\1\0"s};
}

}  // namespace cotan::testing
