// SPDX-License-Identifier: Apache-2.0

#include "capi/effect_program.h"

#include <cstdint>

#include "base/dtype.h"
#include "runtime/testing/program_builder.h"
#include "serialization/schema/program.pb.h"

namespace cotan::capi {

std::string EffectProgramBytes() {
  testing::ProgramBuilder builder;
  testing::MethodBuilder method = builder.AddMethod("double");
  const uint32_t x = method.Input("x", DType::kFloat32, {"2"});
  const uint32_t ok = method.Input("ok", DType::kBool, {});
  serialization::Op print;
  print.mutable_effect()->set_kind(serialization::Effect::PRINT);
  print.mutable_effect()->set_name("fc");
  print.mutable_effect()->set_message("first");
  method.AddOp(print, {x}, {});
  serialization::Op assertion;
  assertion.mutable_effect()->set_kind(serialization::Effect::ASSERT);
  assertion.mutable_effect()->set_name("check");
  assertion.mutable_effect()->set_message("x is odd");
  method.AddOp(assertion, {ok}, {});
  method.Output("y", method.Pointwise({"2"}, {x}, [](auto& b) { return b.Add(0, 0); }));
  return builder.Bytes();
}

}  // namespace cotan::capi
