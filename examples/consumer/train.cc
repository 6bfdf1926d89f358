// SPDX-License-Identifier: Apache-2.0

// Trains the network of definition.cc without LibTorch. Usage: train spirals.cotan
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/session.h"
#include "runtime/tensor.h"
#include "sizes.h"

namespace consumer {
namespace {

constexpr int kSteps = 500;
constexpr int kStepsPerLine = 50;

// Fills a batch with points of the two arms, `labels` with the arm of each.
void FillBatch(std::mt19937& random, std::vector<float>& points, std::vector<int64_t>& labels) {
  std::uniform_real_distribution<float> position(0, 1);
  for (size_t i = 0; i < labels.size(); ++i) {
    labels[i] = static_cast<int64_t>(i) % kClasses;
    const float radius = position(random);
    const float angle =
        2 * std::numbers::pi_v<float> * radius + std::numbers::pi_v<float> * static_cast<float>(labels[i]);
    points[2 * i] = radius * std::cos(angle);
    points[2 * i + 1] = radius * std::sin(angle);
  }
}

absl::Status Train(const std::string& artifact) {
  COTAN_ASSIGN_OR_RETURN(const auto program, cotan::Program::Load(artifact));
  COTAN_ASSIGN_OR_RETURN(auto session, cotan::Session::Create(program, {.kernels = &cotan::CpuKernels()}));
  std::vector<float> points(kBatch * 2);
  std::vector<int64_t> labels(kBatch);
  COTAN_ASSIGN_OR_RETURN(const auto inputs, cotan::Tensor::Borrow(absl::MakeSpan(points), {kBatch, 2}));
  COTAN_ASSIGN_OR_RETURN(const auto targets, cotan::Tensor::Borrow(absl::MakeSpan(labels), {kBatch}));
  std::mt19937 random(1);
  for (int step = 0; step <= kSteps; ++step) {
    FillBatch(random, points, labels);
    COTAN_ASSIGN_OR_RETURN(const auto results, session.Run("train_step", {inputs, targets}));  // logits, loss
    COTAN_ASSIGN_OR_RETURN(const float loss, results[1].Item<float>());
    if (step % kStepsPerLine == 0) std::printf("step %d loss %.4f\n", step, loss);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace consumer

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: train spirals.cotan\n");
    return 2;
  }
  const absl::Status status = consumer::Train(argv[1]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "train: %s\n", status.ToString().c_str());
  return 1;
}
