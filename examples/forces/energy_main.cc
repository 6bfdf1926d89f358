// SPDX-License-Identifier: Apache-2.0

// Fits the potential of train_main.cc from a program that has the energy alone: the training program records the
// gradient of the energy, gives it to a compiled loss, and differentiates it again. See --help.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "examples/common/backend.h"
#include "examples/common/paths.h"
#include "examples/forces/adam.h"
#include "examples/forces/batches.h"
#include "examples/forces/clusters.h"
#include "examples/forces/sizes.h"
#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "runtime/function.h"
#include "runtime/session.h"

ABSL_FLAG(int64_t, steps, 3000, "training steps");
ABSL_FLAG(int, threads, 0, "threads to compute with; 0 = one per core");

namespace cotan::forces {
namespace {

// A session and its function "forward".
struct Model {
  static absl::StatusOr<Model> Load(const char* argv0, const std::string& artifact) {
    COTAN_ASSIGN_OR_RETURN(const std::string path, examples::FindDataFile(argv0, artifact));
    COTAN_ASSIGN_OR_RETURN(const examples::Backend backend, examples::OpenBackend("cpu"));
    COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(path));
    SessionOptions options;
    options.kernels = backend.kernels;
    options.device = backend.device;
    options.threads = absl::GetFlag(FLAGS_threads);
    COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, options));
    COTAN_ASSIGN_OR_RETURN(Function function, Function::Create(session, "forward"));
    return Model{std::move(session), std::move(function)};
  }

  // Returns the only result.
  absl::StatusOr<Variable> Call(const std::vector<Variable>& arguments) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<FunctionResult> results, function.Call(arguments));
    return std::get<Variable>(results[0]);
  }

  Session session;
  Function function;
};

// A parameter of the energy, and its optimizer.
struct Trained {
  std::string name;
  Variable variable;
  Adam adam;
};

class Trainer {
 public:
  static absl::StatusOr<Trainer> Create(const char* argv0) {
    COTAN_ASSIGN_OR_RETURN(Model energy, Model::Load(argv0, "examples/forces/energy.cotan"));
    COTAN_ASSIGN_OR_RETURN(Model loss, Model::Load(argv0, "examples/forces/gradient_loss.cotan"));
    Trainer trainer(std::move(energy), std::move(loss));
    for (const char* name :
         {"hidden.weight", "hidden.bias", "more.weight", "more.bias", "output.weight", "output.bias"}) {
      COTAN_ASSIGN_OR_RETURN(const Variable parameter, trainer.energy_.session.Parameter(name));
      trainer.trained_.push_back({name, parameter, Adam(kLearningRate)});
    }
    COTAN_ASSIGN_OR_RETURN(trainer.ones_, trainer.ops().Ones(DType::kFloat32, {kBatch}));
    return trainer;
  }

  // Runs one step and returns its loss.
  absl::StatusOr<float> Step(const Batch& batch) {
    COTAN_ASSIGN_OR_RETURN(const Variable positions, Variable::Leaf(batch.positions));
    COTAN_ASSIGN_OR_RETURN(const Variable energies, energy_.Call({positions}));
    COTAN_ASSIGN_OR_RETURN(const std::vector<Variable> gradients,
                           autograd::GradWithGraph({energies}, {positions}, {Variable(ones_)}, ops()));
    COTAN_ASSIGN_OR_RETURN(const Variable loss,
                           loss_.Call({energies, gradients[0], Variable(batch.energies), Variable(batch.forces)}));
    autograd::BackwardOptions options;
    options.inputs.emplace();
    for (const Trained& trained : trained_) options.inputs->push_back(trained.variable);
    COTAN_RETURN_IF_ERROR(autograd::Backward({loss}, {}, ops(), options));
    for (Trained& trained : trained_) COTAN_RETURN_IF_ERROR(Update(trained));
    return loss.tensor().Item<float>();
  }

  // Returns the error of the forces of all clusters, a root mean square.
  absl::StatusOr<double> ForceError(Clusters& clusters) {
    std::vector<float> forces;
    for (int64_t b = 0; b < NumBatches(clusters); ++b) {
      COTAN_ASSIGN_OR_RETURN(const Batch batch, BatchOf(clusters, b));
      COTAN_ASSIGN_OR_RETURN(const Variable positions, Variable::Leaf(batch.positions));
      COTAN_ASSIGN_OR_RETURN(const Variable energies, energy_.Call({positions}));
      COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> gradients,
                             autograd::Grad({energies}, {positions}, {ones_}, ops()));
      COTAN_ASSIGN_OR_RETURN(const std::vector<float> values, gradients[0].ToVector<float>());
      for (const float value : values) forces.push_back(-value);
    }
    return RootMeanSquare(forces, clusters.forces);
  }

 private:
  Trainer(Model energy, Model loss) : energy_(std::move(energy)), loss_(std::move(loss)) {}

  TensorOps& ops() { return energy_.session.ops(); }

  absl::Status Update(Trained& trained) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<float> gradient, trained.variable.grad().tensor().ToVector<float>());
    COTAN_ASSIGN_OR_RETURN(std::vector<float> values, trained.variable.tensor().ToVector<float>());
    trained.adam.Step(absl::MakeSpan(values), gradient);
    COTAN_ASSIGN_OR_RETURN(const Tensor updated, Tensor::From<float>(values, trained.variable.sizes()));
    trained.variable.ClearGrad();
    return energy_.session.SetState(trained.name, updated);
  }

  Model energy_, loss_;
  std::vector<Trained> trained_;
  Tensor ones_;  // gradients of the energies
};

absl::Status Run(const char* argv0) {
  if (absl::GetFlag(FLAGS_steps) < 0) return absl::InvalidArgumentError("--steps is negative");
  if (absl::GetFlag(FLAGS_threads) < 0) return absl::InvalidArgumentError("--threads is negative");
  COTAN_ASSIGN_OR_RETURN(Trainer trainer, Trainer::Create(argv0));
  Clusters train = DrawClusters(kTrainClusters, /*seed=*/1);
  Clusters held_out = DrawClusters(kHeldOutClusters, /*seed=*/2);
  COTAN_ASSIGN_OR_RETURN(const double before, trainer.ForceError(held_out));
  absl::PrintF("force error before: %.3f\n", before);
  for (int64_t step = 0; step < absl::GetFlag(FLAGS_steps); ++step) {
    COTAN_ASSIGN_OR_RETURN(const Batch batch, BatchOf(train, step % NumBatches(train)));
    COTAN_ASSIGN_OR_RETURN(const float loss, trainer.Step(batch));
    if ((step + 1) % 500 == 0) absl::PrintF("step %5d  loss %.4f\n", step + 1, loss);
  }
  COTAN_ASSIGN_OR_RETURN(const double after, trainer.ForceError(held_out));
  absl::PrintF("force error after: %.3f\n", after);
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::forces

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Fits a pair potential to the forces of clusters: the energy is compiled, its gradient is recorded and\n"
      "differentiated by the training program.\n"
      "Example: train_energy --steps=5000");
  if (const auto rest = absl::ParseCommandLine(argc, argv); rest.size() > 1) {
    absl::FPrintF(stderr, "train_energy: unexpected argument '%s'; see --help\n", rest[1]);
    return 1;
  }
  const absl::Status status = cotan::forces::Run(argv[0]);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "train_energy: %s\n", status.ToString());
  return 1;
}
