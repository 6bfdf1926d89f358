// SPDX-License-Identifier: Apache-2.0

// Cases of ops whose results cannot be compared because they are random or undefined.
#include <ATen/ATen.h>

#include <string>
#include <utility>

#include "testing/ops/op_case_groups.h"

namespace cotan::testing {
namespace {

// Dropout in training, of elements of [n, c, ...] and of whole channels.
void AddDropouts(std::vector<OpCase>& cases) {
  for (const std::string op : {"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}) {
    for (const char* form : {".default", "_.default"}) {
      cases.push_back({op + form, {T({4, 6, 2}), V(0.5), V(true)}});
    }
  }
  cases.push_back({"native_dropout.default", {T({4, 6}), V(0.5), V(true)}});
  for (const char* op : {"rrelu.default", "rrelu_.default"}) {
    cases.push_back({op, {T({4, 6}), Num(0.1), Num(0.3), V(true), None()}});
  }
}

void AddDraws(std::vector<OpCase>& cases) {
  cases.push_back({"bernoulli.default", {Positive({3, 4}), None()}});
  cases.push_back({"bernoulli.p", {T({3, 4}), V(0.3), None()}});
  cases.push_back({"bernoulli.Tensor", {T({3, 4}), Positive({3, 4}), None()}});
  cases.push_back({"bernoulli_.float", {T({3, 4}), V(0.3), None()}});
  cases.push_back({"bernoulli_.Tensor", {T({3, 4}), Positive({3, 4}), None()}});
  for (const char* op : {"uniform_", "uniform"}) {
    cases.push_back({std::string(op) + ".default", {T({3, 4}), V(-1.0), V(2.0), None()}});
  }
  for (const char* op : {"normal_", "normal_functional"}) {
    cases.push_back({std::string(op) + ".default", {T({3, 4}), V(1.0), V(2.0), None()}});
  }
  for (const char* form : {"", "_"}) {
    const auto add = [&](const std::string& op, std::vector<Arg> arguments) {
      arguments.insert(arguments.begin(), T({3, 4}));
      arguments.push_back(None());
      const size_t dot = op.find('.');
      cases.push_back({op.substr(0, dot) + form + op.substr(dot), std::move(arguments)});
    };
    add("exponential.default", {V(0.5)});
    add("log_normal.default", {V(0.5), V(0.25)});
    add("cauchy.default", {V(0.5), V(2.0)});
    add("geometric.default", {V(0.3)});
    add("random.default", {});
    add("random.to", {V(7)});
    add("random.from", {V(-2), V(100)});
  }
  cases.push_back({"multinomial.default", {Positive({3, 4}), V(2), V(false), None()}});
  cases.push_back({"multinomial.default", {Positive({4}), V(9), V(true), None()}});
  cases.push_back({"normal.float_float", {V(1.0), V(2.0), Ints({3, 4}), None(), Dtype(), None(), None(), None()}});
  cases.push_back({"normal.Tensor_float", {T({3, 4}), V(2.0), None()}});
  cases.push_back({"normal.float_Tensor", {V(1.0), Positive({3, 4}), None()}});
  cases.push_back({"normal.Tensor_Tensor", {T({3, 4}), Positive({3, 4}), None()}});
}

// Ops whose last arguments are dtype, layout, device and pin_memory.
void AddTensors(std::vector<OpCase>& cases) {
  const auto add = [&](const char* op, std::vector<Arg> arguments) {
    arguments.push_back(Dtype());
    arguments.insert(arguments.end(), 3, None());
    cases.push_back({op, std::move(arguments)});
  };
  const auto add_like = [&](const char* op, std::vector<Arg> arguments) {
    arguments.insert(arguments.end(), 5, None());
    cases.push_back({op, std::move(arguments)});
  };
  add("rand.default", {Ints({3, 4})});
  add("rand.generator", {Ints({3, 4}), None()});
  add_like("rand_like.default", {T({3, 4})});
  add("randn.default", {Ints({3, 4})});
  add("randn.generator", {Ints({3, 4}), None()});
  add_like("randn_like.default", {T({3, 4})});
  add("randint.default", {V(7), Ints({3, 4})});
  add("randint.low", {V(-2), V(7), Ints({3, 4})});
  add_like("randint_like.default", {T({3, 4}), V(7)});
  add_like("randint_like.low_dtype", {T({3, 4}), V(-2), V(7)});
  cases.push_back({"randperm.default", {V(7), None(), None(), None(), None()}});
  cases.push_back({"randperm.generator", {V(7), None(), None(), None(), None(), None()}});
}

}  // namespace

std::vector<OpCase> RandomCases() {
  std::vector<OpCase> cases = {
      // Results that only the backward reads differ from those of LibTorch.
      {"_embedding_bag.default",
       {T({10, 4}), Longs({1, 4, 4, 0}), Longs({0, 2}), V(false), V(0), V(false), None(), V(false), V(-1)}},
      {"empty.memory_format", {Ints({3, 4}), Dtype(), None(), None(), None(), None()}},
      {"empty_permuted.default", {Ints({3, 4}), Ints({1, 0}), Dtype(), None(), None(), None()}},
      {"empty_strided.default", {Ints({3, 4}), Ints({4, 1}), Dtype(), None(), None(), None()}},
  };
  AddDropouts(cases);
  AddDraws(cases);
  AddTensors(cases);
  return cases;
}

}  // namespace cotan::testing
