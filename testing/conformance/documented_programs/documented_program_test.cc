// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/documented_programs/documented_program.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace cotan::conformance {
namespace {

TEST(DocumentedProgramTest, CodeHasNoCommentsAndNoWhiteSpace) {
  EXPECT_EQ(WithoutSpace("x.t_();  // x is complex\nreturn x * 2;\n"), "x.t_();returnx*2;");
}

TEST(DocumentedProgramTest, ProgramsAreThoseOfTheSection) {
  constexpr absl::string_view kPage = R"(# Page
```cpp
before();
```
## Known differences
### A part
One sentence.
```cpp
// a comment
x.t_();
```
eager: this.
Cotan: that.

```cpp
x.mul_(2);
```
Cotan: `no`.
## Excluded from random programs
```cpp
after();
```
)";
  const std::vector<DocumentedProgram> programs = ProgramsOf(kPage, "## Known", "## Excluded");
  ASSERT_EQ(programs.size(), 2u);
  EXPECT_EQ(programs[0].section, "### A part");
  EXPECT_EQ(programs[0].heading, "One sentence.");
  EXPECT_EQ(programs[0].code, "x.t_();");
  EXPECT_EQ(programs[0].cotan, "Cotan: that.");
  EXPECT_EQ(programs[1].heading, "");
  EXPECT_EQ(programs[1].code, "x.mul_(2);");
  EXPECT_EQ(programs[1].cotan, "Cotan: `no`.");
}

TEST(DocumentedProgramTest, TextAndEffectAreOfTheSameCode) {
  const ExecutedProgram program = COTAN_PROGRAM((at::Tensor x, at::Tensor y), return {x * 2, x + y};);
  EXPECT_EQ(program.code, "return{x*2,x+y};");
  const std::vector<at::Tensor> results = program.function({at::ones({1}), at::ones({1})});
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(results[1].item<float>(), 2);
}

TEST(DocumentedProgramTest, FunctionsAreExecutedToo) {
  using at::Tensor;
  const ExecutedProgram program = COTAN_FUNCTION(Tensor f(Tensor x) { return x * 2; });
  EXPECT_EQ(program.code, "Tensorf(Tensorx){returnx*2;}");
  EXPECT_EQ(program.function({at::ones({1})})[0].item<float>(), 2);
}

}  // namespace
}  // namespace cotan::conformance
