// SPDX-License-Identifier: Apache-2.0

// The programs of docs/conformance.md and docs/aliasing.md, as the pages show them and as functions
// that can be called.
#ifndef COTAN_TESTING_CONFORMANCE_DOCUMENTED_PROGRAMS_DOCUMENTED_PROGRAM_H_
#define COTAN_TESTING_CONFORMANCE_DOCUMENTED_PROGRAMS_DOCUMENTED_PROGRAM_H_

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace cotan::conformance {

// A program on the page, with the text around it.
struct DocumentedProgram {
  std::string section;  // its heading: "### Gradients"
  std::string heading;  // the sentences before the program; empty if there are none
  std::string code;     // without comments and white space
  std::string cotan;    // the line "Cotan: ..." after the program
};

// Returns `code` without comments and white space.
std::string WithoutSpace(absl::string_view code);

// Returns the C++ programs of a Markdown page in its order, from the line that starts with `first` to
// the next one that starts with `last`, or to the end if `last` is empty.
std::vector<DocumentedProgram> ProgramsOf(absl::string_view page, absl::string_view first, absl::string_view last);

// Return the programs of the sections "Known differences" and "Refused when compiled" of
// docs/conformance.md, and those of docs/aliasing.md; none if the page cannot be read.
std::vector<DocumentedProgram> ProgramsOfConformancePage();
std::vector<DocumentedProgram> ProgramsOfAliasingPage();

// Returns the program with this code; all members are empty if there is none.
DocumentedProgram FindProgram(const std::vector<DocumentedProgram>& programs, absl::string_view code);

// Results of a program: nothing, a tensor, or a list.
class Results {
 public:
  Results() = default;
  Results(const at::Tensor& tensor) : tensors_{tensor} {}                     // NOLINT: implicit, for return
  Results(std::initializer_list<at::Tensor> tensors) : tensors_(tensors) {}   // NOLINT: as above
  Results(std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {}  // NOLINT: as above

  const std::vector<at::Tensor>& tensors() const { return tensors_; }

 private:
  std::vector<at::Tensor> tensors_;
};

// A program that can be called. `function` throws if there are too few arguments.
struct ExecutedProgram {
  std::string code;  // as DocumentedProgram::code
  std::function<std::vector<at::Tensor>(std::vector<at::Tensor>)> function;
};

template <size_t... kIndices, typename Function>
std::vector<at::Tensor> CallWith(Function function, const std::vector<at::Tensor>& in,
                                 std::index_sequence<kIndices...>) {
  return Results(function(in.at(kIndices)...)).tensors();
}

template <typename Result, typename... Arguments>
ExecutedProgram MakeExecutedProgram(absl::string_view code, Result (*function)(Arguments...)) {
  return {WithoutSpace(code), [function](const std::vector<at::Tensor>& in) {
            return CallWith(function, in, std::index_sequence_for<Arguments...>());
          }};
}

}  // namespace cotan::conformance

// Returns the ExecutedProgram of a documented program, which has the text and the effect of the
// code after `parameters`: COTAN_PROGRAM((at::Tensor x), x.t_(); return x * 2;).
#define COTAN_PROGRAM(parameters, ...)       \
  ::cotan::conformance::MakeExecutedProgram( \
      #__VA_ARGS__, +[] parameters -> ::cotan::conformance::Results { __VA_ARGS__ return {}; })

// Returns the ExecutedProgram of a documented function `f`, with its text and its effect:
// COTAN_FUNCTION(Tensor f(Tensor x) { return x * 2; }).
#define COTAN_FUNCTION(...)                                    \
  ::cotan::conformance::MakeExecutedProgram(#__VA_ARGS__, [] { \
    struct Documented {                                        \
      static __VA_ARGS__                                       \
    };                                                         \
    return &Documented::f;                                     \
  }())

#endif  // COTAN_TESTING_CONFORMANCE_DOCUMENTED_PROGRAMS_DOCUMENTED_PROGRAM_H_
