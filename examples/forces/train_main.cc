// SPDX-License-Identifier: Apache-2.0

// Fits a pair potential to the forces of a Lennard-Jones potential. See --help.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "examples/common/backend.h"
#include "examples/common/paths.h"
#include "examples/forces/batches.h"
#include "examples/forces/clusters.h"
#include "examples/forces/sizes.h"
#include "runtime/session.h"

ABSL_FLAG(int64_t, steps, 3000, "training steps");
ABSL_FLAG(int, threads, 0, "threads to compute with; 0 = one per core");
ABSL_FLAG(std::string, device, "cpu", "cpu or cuda");
ABSL_FLAG(std::string, artifact, "", "compiled model; the one built with this program if empty");

namespace cotan::forces {
namespace {

// Returns the error of the forces of all clusters, a root mean square.
absl::StatusOr<double> ForceError(Session& session, Clusters& clusters) {
  std::vector<float> forces;
  for (int64_t b = 0; b < NumBatches(clusters); ++b) {
    COTAN_ASSIGN_OR_RETURN(const Batch batch, BatchOf(clusters, b));
    COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> results, session.Run("eval", {batch.positions}));
    if (results.size() != 2 || results[1].sizes() != batch.forces.sizes()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'eval' does not return energies and forces ", batch.forces.ToString(), "; see --artifact"));
    }
    COTAN_ASSIGN_OR_RETURN(const std::vector<float> values, results[1].ToVector<float>());
    forces.insert(forces.end(), values.begin(), values.end());
  }
  return RootMeanSquare(forces, clusters.forces);
}

absl::Status Train(Session& session, Clusters& clusters, int64_t steps) {
  for (int64_t step = 0; step < steps; ++step) {
    COTAN_ASSIGN_OR_RETURN(const Batch batch, BatchOf(clusters, step % NumBatches(clusters)));
    COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> results,
                           session.Run("train_step", {batch.positions, batch.energies, batch.forces}));
    if ((step + 1) % 500 != 0) continue;
    COTAN_ASSIGN_OR_RETURN(const float loss, results.back().Item<float>());
    absl::PrintF("step %5d  loss %.4f\n", step + 1, loss);
  }
  return absl::OkStatus();
}

absl::Status Run(const char* argv0) {
  if (absl::GetFlag(FLAGS_steps) < 0) return absl::InvalidArgumentError("--steps is negative");
  if (absl::GetFlag(FLAGS_threads) < 0) return absl::InvalidArgumentError("--threads is negative");
  std::string artifact = examples::UserPath(absl::GetFlag(FLAGS_artifact));
  if (artifact.empty()) {
    COTAN_ASSIGN_OR_RETURN(artifact, examples::FindDataFile(argv0, "examples/forces/forces.cotan"));
  }
  COTAN_ASSIGN_OR_RETURN(const examples::Backend backend, examples::OpenBackend(absl::GetFlag(FLAGS_device)));
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(artifact));
  SessionOptions options;
  options.kernels = backend.kernels;
  options.device = backend.device;
  options.threads = absl::GetFlag(FLAGS_threads);
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, options));

  Clusters train = DrawClusters(kTrainClusters, /*seed=*/1);
  Clusters held_out = DrawClusters(kHeldOutClusters, /*seed=*/2);
  absl::PrintF("%d clusters of %d atoms to train on, %d held out; forces of %.2f (root mean square)\n", train.count(),
               kAtoms, held_out.count(), RootMeanSquare(held_out.forces));
  COTAN_ASSIGN_OR_RETURN(const double before, ForceError(session, held_out));
  absl::PrintF("force error before: %.3f\n", before);
  COTAN_RETURN_IF_ERROR(Train(session, train, absl::GetFlag(FLAGS_steps)));
  COTAN_ASSIGN_OR_RETURN(const double after, ForceError(session, held_out));
  absl::PrintF("force error after: %.3f\n", after);
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::forces

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Fits a pair potential to the forces of clusters with Cotan's runtime.\n"
      "Example: train --steps=5000");
  if (const auto rest = absl::ParseCommandLine(argc, argv); rest.size() > 1) {
    absl::FPrintF(stderr, "train: unexpected argument '%s'; see --help\n", rest[1]);
    return 1;
  }
  const absl::Status status = cotan::forces::Run(argv[0]);
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "train: %s\n", status.ToString());
  return 1;
}
