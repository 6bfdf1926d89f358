// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/train_options.h"

#include <cstdint>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "runtime/tools/packed_images.h"
#include "runtime/training/csv_dataset.h"
#include "runtime/training/idx_dataset.h"
#include "runtime/training/safetensors_dataset.h"
#include "serialization/schema/continuation.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::tools {
namespace {

using training::Dataset;
using training::TrainerOptions;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kTiny = std::numeric_limits<double>::min();  // least number above 0

constexpr absl::string_view kNames[] = {
    "data",           "format",     "inputs",       "targets",    "classes",    "delimiter",  "held_out",
    "mean",           "deviation",  "epochs",       "batch",      "seed",       "accumulate", "lr",
    "channels",       "schedule",   "warmup_steps", "clip_norm",  "clip_value", "ema",        "metric",
    "evaluate_every", "early_stop", "min_delta",    "checkpoint", "resume",     "log",        "checkpoint_every",
    "curve",          "best",       "save",         "threads",    "device",     "help",       "flush_denormals"};

absl::Status Invalid(absl::string_view option, absl::string_view value, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("--", option, "=", value, ": ", what));
}

std::vector<std::string> List(const CommandLine& line, absl::string_view option) {
  return absl::StrSplit(line.Text(option, ""), ',', absl::SkipEmpty());
}

// Prefixes the error of an option with its name and value.
absl::Status WithOption(const CommandLine& line, absl::string_view option, const absl::Status& status) {
  if (status.ok()) return status;
  return Invalid(option, line.Text(option, ""), status.message());
}

absl::StatusOr<std::optional<uint64_t>> Seed(const CommandLine& line) {
  if (!line.Has("seed")) return std::optional<uint64_t>();
  uint64_t seed = 0;
  if (absl::SimpleAtoi(line.Text("seed", ""), &seed)) return std::optional<uint64_t>(seed);
  return Invalid("seed", line.Text("seed", ""), "expected an integer of at least 0");
}

absl::Status ParseLoop(const CommandLine& line, TrainerOptions& options) {
  COTAN_ASSIGN_OR_RETURN(options.epochs, line.Number("epochs", 1, 1));
  COTAN_ASSIGN_OR_RETURN(options.batch, line.Number("batch", 0, 1));
  COTAN_ASSIGN_OR_RETURN(options.accumulate, line.Number("accumulate", 1, 1));
  COTAN_ASSIGN_OR_RETURN(options.seed, Seed(line));
  COTAN_ASSIGN_OR_RETURN(options.evaluate_every, line.Number("evaluate_every", 0, 1));
  COTAN_ASSIGN_OR_RETURN(options.checkpoint_every, line.Number("checkpoint_every", 0, 1));
  COTAN_ASSIGN_OR_RETURN(options.early_stopping.patience, line.Number("early_stop", 0, 1));
  COTAN_ASSIGN_OR_RETURN(const std::optional<double> min_delta, line.Real("min_delta", 0, kInfinity));
  options.early_stopping.min_delta = min_delta.value_or(0);
  COTAN_ASSIGN_OR_RETURN(const std::optional<double> mean, line.Real("mean", -kInfinity, kInfinity));
  COTAN_ASSIGN_OR_RETURN(const std::optional<double> deviation, line.Real("deviation", kTiny, kInfinity));
  options.normalization = {mean.value_or(0), deviation.value_or(1)};
  options.checkpoint = line.Text("checkpoint", "");
  return absl::OkStatus();
}

absl::Status ParseUpdates(const CommandLine& line, TrainerOptions& options) {
  COTAN_ASSIGN_OR_RETURN(options.lr, line.Real("lr", kTiny, kInfinity));
  COTAN_ASSIGN_OR_RETURN(options.clip_norm, line.Real("clip_norm", kTiny, kInfinity));
  COTAN_ASSIGN_OR_RETURN(options.clip_value, line.Real("clip_value", kTiny, kInfinity));
  COTAN_ASSIGN_OR_RETURN(options.ema, line.Real("ema", kTiny, 1 - std::numeric_limits<double>::epsilon()));
  const absl::StatusOr<training::ScheduleOptions> schedule = training::ParseSchedule(line.Text("schedule", "constant"));
  COTAN_RETURN_IF_ERROR(WithOption(line, "schedule", schedule.status()));
  options.schedule = *schedule;
  COTAN_ASSIGN_OR_RETURN(options.schedule.warmup_steps, line.Number("warmup_steps", 0, 0));
  return absl::OkStatus();
}

absl::StatusOr<training::Metric> FindMetric(const CommandLine& line, const Program& program) {
  if (line.Has("metric")) {
    const absl::StatusOr<training::Metric> metric = training::ParseMetric(line.Text("metric", ""));
    COTAN_RETURN_IF_ERROR(WithOption(line, "metric", metric.status()));
    return *metric;
  }
  const absl::StatusOr<int> index = program.FindMethod("train_step");
  if (!index.ok()) return training::Metric::kMeanSquaredError;
  const serialization::Method& method = program.method(*index);
  const int num_arguments = NumArguments(program.artifact(), method);
  if (num_arguments == 0) return training::Metric::kMeanSquaredError;
  const auto last = static_cast<int>(method.inputs(num_arguments - 1));
  return IsInteger(ToDType(method.values(last).type().dtype())) ? training::Metric::kAccuracy
                                                                : training::Metric::kMeanSquaredError;
}

// Returns an error if `option` is given without `needed`.
absl::Status Needs(const CommandLine& line, absl::string_view option, absl::string_view needed) {
  if (!line.Has(option) || line.Has(needed)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", option, " needs --", needed));
}

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// Returns true if the data are folders of images.
bool ReadsImages(const CommandLine& line) {
  return line.Has("format") ? line.Text("format", "") == "images" : IsFolder(line.Text("data", ""));
}

// Returns an error if `option` names a folder, for other formats than images.
absl::Status RefuseFolder(const CommandLine& line, absl::string_view option) {
  const std::string path = line.Text(option, "");
  if (!IsFolder(path)) return absl::OkStatus();
  return Invalid(option, path, "this is a folder; expected a file, or --data=FOLDER with images");
}

// Returns an error for an option that the format does not have.
absl::Status CheckImageOptions(const CommandLine& line) {
  if (!ReadsImages(line)) {
    if (!line.Has("channels")) return absl::OkStatus();
    return Invalid("channels", line.Text("channels", ""), "it is for folders of images");
  }
  if (line.Has("targets")) {
    return Invalid("targets", line.Text("targets", ""), "the targets of a folder of images are its subfolders");
  }
  for (const char* option : {"inputs", "classes", "delimiter"}) {
    if (!line.Has(option)) continue;
    return Invalid(option, line.Text(option, ""),
                   "it is for files; the classes of a folder of images are its subfolders");
  }
  return absl::OkStatus();
}

struct FormatOption {
  absl::string_view name;
  absl::string_view format;  // the only one that has it
};

constexpr FormatOption kFormatOptions[] = {{"inputs", "safetensors"}, {"classes", "csv"}, {"delimiter", "csv"}};

// Returns an error for an option that `format`, which is not images, does not have.
absl::Status CheckFileOptions(const CommandLine& line, absl::string_view format) {
  for (const FormatOption& option : kFormatOptions) {
    if (!line.Has(option.name) || option.format == format) continue;
    return Invalid(option.name, line.Text(option.name, ""),
                   absl::StrCat("it is for --format=", option.format, ", but the data are ", format, "; leave it out"));
  }
  return Needs(line, "classes", "targets");
}

// Returns the format that --format names, or that of the name of the data.
absl::StatusOr<std::string> Format(const CommandLine& line) {
  const std::string data = line.Text("data", "");
  if (data.empty()) return absl::InvalidArgumentError("--data=FILE is missing; see cotan train --help");
  COTAN_RETURN_IF_ERROR(CheckImageOptions(line));
  if (ReadsImages(line)) return std::string("images");
  COTAN_RETURN_IF_ERROR(RefuseFolder(line, "data"));
  std::string format = line.Text("format", "");
  if (format.empty() && absl::EndsWith(data, ".csv")) format = "csv";
  if (format.empty() && absl::EndsWith(data, ".safetensors")) format = "safetensors";
  if (format.empty() && (absl::EndsWith(data, "-ubyte") || absl::EndsWith(data, ".idx"))) format = "idx";
  if (format != "csv" && format != "idx" && format != "safetensors") {
    return Invalid("format", format, absl::StrCat("expected csv, idx, safetensors or images for '", data, "'"));
  }
  COTAN_RETURN_IF_ERROR(CheckFileOptions(line, format));
  return format;
}

absl::StatusOr<training::CsvOptions> CsvOptionsOf(const CommandLine& line) {
  training::CsvOptions options;
  options.targets = List(line, "targets");
  options.classes = List(line, "classes");
  const std::string delimiter = line.Text("delimiter", ",");
  if (delimiter.size() != 1 && delimiter != "\\t") {
    return Invalid("delimiter", delimiter, "expected one character, or \\t");
  }
  options.delimiter = delimiter.size() == 1 ? delimiter[0] : '\t';
  return options;
}

// Reads a folder of images. `classes` become its classes, or must be these if there are any.
absl::StatusOr<Dataset> ReadImages(const CommandLine& line, const std::string& path,
                                   std::vector<std::string>& classes) {
  COTAN_ASSIGN_OR_RETURN(const int channels, line.Number("channels", 3, 1));
  if (channels != 1 && channels != 3) return Invalid("channels", absl::StrCat(channels), "expected 1 or 3");
  COTAN_ASSIGN_OR_RETURN(PackedImages images, ReadPackedImages(path, channels));
  if (!classes.empty() && images.classes != classes) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", path, "' has other subfolders than --data: ", absl::StrJoin(images.classes, ", "),
                     "; those of --data are ", absl::StrJoin(classes, ", "),
                     ". Give both the same ones, empty where there is no image"));
  }
  classes = std::move(images.classes);
  return std::move(images.data);
}

// Reads a file of `format`, for idx a pair of files, separated by a comma, for images a folder.
absl::StatusOr<Dataset> ReadData(const CommandLine& line, const std::string& format, const std::string& path,
                                 std::vector<std::string>& classes) {
  if (format == "images") return ReadImages(line, path, classes);
  if (format == "safetensors") return training::ReadSafetensors(path);
  if (format == "csv") {
    COTAN_ASSIGN_OR_RETURN(const training::CsvOptions options, CsvOptionsOf(line));
    return training::ReadCsv(path, options);
  }
  const std::vector<std::string> paths = absl::StrSplit(path, ',');
  std::vector<std::pair<std::string, std::string>> columns = {{"inputs", paths[0]}};
  if (paths.size() == 2) columns.emplace_back("targets", paths[1]);
  if (paths.size() <= 2) return training::ReadIdxDataset(columns);
  return absl::InvalidArgumentError(absl::StrCat("'", path, "': expected one IDX file, or INPUTS,TARGETS"));
}

absl::Status ReadHeldOut(const CommandLine& line, const std::string& format, TrainData& data) {
  const std::string held_out = line.Text("held_out", "");
  double fraction = 0;
  if (!absl::SimpleAtod(held_out, &fraction)) {
    if (format != "images") COTAN_RETURN_IF_ERROR(RefuseFolder(line, "held_out"));
    COTAN_ASSIGN_OR_RETURN(data.held_out, ReadData(line, format, held_out, data.classes));
    return absl::OkStatus();
  }
  COTAN_ASSIGN_OR_RETURN(const std::optional<uint64_t> seed, Seed(line));
  absl::StatusOr<training::DatasetSplit> split = training::HoldOut(data.train, fraction, seed.value_or(0));
  COTAN_RETURN_IF_ERROR(WithOption(line, "held_out", split.status()));
  data.train = std::move(split->train);
  data.held_out = std::move(split->held_out);
  return absl::OkStatus();
}

}  // namespace

absl::Span<const absl::string_view> TrainOptionNames() { return kNames; }

absl::string_view TrainUsage() {
  return "usage: cotan train FILE.cotan --data=FILE [options]\n"
         "Trains with the methods of a compiled program; docs/training.md has examples.\n"
         "data\n"
         "  --data=FILE           examples to train on, or a folder of images, whose subfolders are the classes\n"
         "  --format=FORMAT       csv, idx, safetensors or images; by default that of the file's name\n"
         "  --channels=N          images: 3 for color (the default) or 1 for gray\n"
         "  --targets=TARGETS     csv: columns, by name or number; idx: a second file; safetensors: tensors\n"
         "  --inputs=TENSORS      safetensors: tensors for the model's inputs; by default all but the targets\n"
         "  --classes=A,B,...     csv: texts of the targets that are the classes 0, 1, ...\n"
         "  --delimiter=C         csv: between fields; a comma by default, \\t for a tab\n"
         "  --mean=X --deviation=X  inputs become (value - mean) / deviation\n"
         "  --held_out=FILE       examples for evaluations (idx: INPUTS,TARGETS); a number such as 0.1 is a share of\n"
         "                        --data, taken at random\n"
         "training\n"
         "  --epochs=N            1 by default\n"
         "  --batch=N             examples; by default the most that the program takes\n"
         "  --accumulate=N        batches in a step, whose gradients are averaged\n"
         "  --seed=N              of the orders of examples and of the program's random numbers\n"
         "  --lr=X                learning rate; by default the program's\n"
         "  --schedule=S          constant, step(epochs=N,gamma=X), step(steps=N,gamma=X), cosine(minimum=X) or\n"
         "                        one_cycle(pct_start=X,div_factor=X,final_div_factor=X)\n"
         "  --warmup_steps=N      steps of a linear warm-up before the schedule\n"
         "  --clip_norm=X --clip_value=X  limits of gradients\n"
         "  --ema=X               decay of averages of the parameters, which evaluations and --save use\n"
         "evaluation\n"
         "  --metric=NAME         accuracy, cross_entropy or mse; by default accuracy if targets are integers, else "
         "mse\n"
         "  --evaluate_every=N    steps; by default after each epoch\n"
         "  --early_stop=N        ends after N evaluations without an improvement of more than --min_delta=X\n"
         "files\n"
         "  --checkpoint=FILE     written after each epoch or --checkpoint_every=N steps, and on control-C\n"
         "  --resume              continues from --checkpoint with the bits of a run that was not interrupted\n"
         "  --best=FILE           the states of the best evaluation (safetensors)\n"
         "  --save=FILE           the states at the end (safetensors)\n"
         "  --log=FILE            a line of JSON for each step and evaluation\n"
         "  --curve=FILE          loss and scores as SVG\n"
         "--device=cpu (the default) or --device=cuda, --threads=N\n"
         "  --flush_denormals: take subnormal numbers as zeros\n";
}

absl::StatusOr<TrainOptions> ParseTrainOptions(const CommandLine& line, const Program& program) {
  TrainOptions options;
  COTAN_RETURN_IF_ERROR(ParseLoop(line, options.trainer));
  COTAN_RETURN_IF_ERROR(ParseUpdates(line, options.trainer));
  COTAN_ASSIGN_OR_RETURN(options.trainer.metric, FindMetric(line, program));
  for (const char* option : {"metric", "evaluate_every", "early_stop", "best"}) {
    COTAN_RETURN_IF_ERROR(Needs(line, option, "held_out"));
  }
  COTAN_RETURN_IF_ERROR(Needs(line, "min_delta", "early_stop"));
  COTAN_RETURN_IF_ERROR(Needs(line, "resume", "checkpoint"));
  COTAN_RETURN_IF_ERROR(Needs(line, "checkpoint_every", "checkpoint"));
  if (!ReadsImages(line)) COTAN_RETURN_IF_ERROR(Needs(line, "held_out", "targets"));
  options.resume = line.Has("resume");
  options.log = line.Text("log", "");
  options.curve = line.Text("curve", "");
  options.best = line.Text("best", "");
  options.save = line.Text("save", "");
  return options;
}

absl::StatusOr<TrainData> ReadTrainData(const CommandLine& line) {
  COTAN_ASSIGN_OR_RETURN(const std::string format, Format(line));
  std::string path = line.Text("data", "");
  const std::string targets = line.Text("targets", "");
  if (format == "idx" && !targets.empty()) absl::StrAppend(&path, ",", targets);
  std::vector<std::string> classes;
  COTAN_ASSIGN_OR_RETURN(Dataset train, ReadData(line, format, path, classes));
  TrainData data = {std::move(train), std::nullopt, {}, {}, std::move(classes)};
  if (format == "safetensors") {
    data.inputs = List(line, "inputs");
    data.targets = List(line, "targets");
  } else if (!targets.empty() || format == "images") {
    data.targets = {"targets"};
  }
  if (line.Has("held_out")) COTAN_RETURN_IF_ERROR(ReadHeldOut(line, format, data));
  return data;
}

}  // namespace cotan::tools
