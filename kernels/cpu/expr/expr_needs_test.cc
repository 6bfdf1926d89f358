// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/expr_needs.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/api/expr_program.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/random_expr.h"

namespace cotan::cpu::expr {
namespace {

using serialization::ScalarFn;

// What plans may ask for, and what they asked for beyond it. TileOps are plain functions, hence the globals.
ExprNeeds allowed;
std::vector<std::string> exceeded;

void Note(bool in_needs, const std::string& what) {
  if (!in_needs) exceeded.push_back(what);
}

TileFn Find(ScalarFn fn, DType dtype, int scalars) {
  Note(allowed.functions.contains({fn, dtype}), absl::StrCat(ExprFnName(fn), " of ", DTypeName(dtype)));
  return BestTileOps().find(fn, dtype, scalars);
}
TileFn FindContraction(Contraction contraction, DType dtype, int scalars) {
  Note(allowed.contractions.contains(dtype), absl::StrCat("contraction of ", DTypeName(dtype)));
  return BestTileOps().find_contraction(contraction, dtype, scalars);
}
TileFn FindCast(DType from, DType to) {
  Note(allowed.casts.contains({from, to}), absl::StrCat("cast ", DTypeName(from), " to ", DTypeName(to)));
  return BestTileOps().find_cast(from, to);
}
TileFn FindRound(DType dtype) {
  const TileFn loop = BestTileOps().find_round(dtype);
  Note(loop == nullptr || allowed.rounds.contains(dtype), absl::StrCat("rounding to ", DTypeName(dtype)));
  return loop;
}
CopyFn FindLoad(DType dtype) {
  Note(allowed.loads.contains(dtype), absl::StrCat("load of ", DTypeName(dtype)));
  return BestTileOps().find_load(dtype);
}
CopyFn FindStore(DType dtype) {
  Note(allowed.stores.contains(dtype), absl::StrCat("store of ", DTypeName(dtype)));
  return BestTileOps().find_store(dtype);
}
ReduceFns FindReduce(ScalarFn fn, DType dtype) {
  Note(allowed.reductions.contains({fn, dtype}), absl::StrCat(ExprFnName(fn), " of ", DTypeName(dtype)));
  return BestTileOps().find_reduce(fn, dtype);
}

TileOps RecordingOps() {
  return {"recording", Find,       FindContraction,      FindCast,           FindRound, FindLoad,
          FindStore,   FindReduce, BestTileOps().random, BestTileOps().chain};
}

TEST(ExprNeedsTest, CoverThePlansOfRandomExpressions) {
  const TileOps ops = RecordingOps();
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    std::mt19937_64 random(seed);
    const cotan::testing::RandomExpr expr = cotan::testing::MakeRandomExpr(random, 3'000);
    SCOPED_TRACE(absl::StrCat("seed ", seed, "\n", cotan::testing::ToText(expr.op.expr())));
    allowed = {};
    exceeded.clear();
    AddNeeds(expr.op.expr(), allowed);
    std::vector<TensorSpec> inputs, outputs;
    for (const auto& input : expr.inputs) inputs.push_back(input->spec());
    for (size_t k = 0; k < expr.output_layouts.size(); ++k) {
      outputs.push_back({expr.output_dtypes[k], expr.output_layouts[k]});
    }
    ASSERT_TRUE(MakeExprOn({expr.op, inputs, outputs, {}, 1}, ops).ok());
    ASSERT_EQ(exceeded, std::vector<std::string>{});
    ASSERT_EQ(CheckNeeds(allowed, BestTileOps()), absl::OkStatus());
  }
}

TEST(ExprNeedsTest, NamesWhatIsMissing) {
  TileOps ops = BestTileOps();
  ops.find_cast = [](DType, DType) -> TileFn { return nullptr; };
  ExprNeeds needs;
  needs.casts.emplace(DType::kFloat32, DType::kInt8);
  const absl::Status status = CheckNeeds(needs, ops);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "expr: the cast from f32 to i8");
}

}  // namespace
}  // namespace cotan::cpu::expr
