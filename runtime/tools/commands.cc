// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/commands.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/dtype.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "runtime/execution/program.h"
#include "runtime/execution/step_threads.h"
#include "runtime/session/call_argument.h"
#include "runtime/session/session.h"
#include "runtime/tools/adapters.h"
#include "runtime/tools/bench.h"
#include "runtime/tools/command_line.h"
#include "runtime/tools/diff.h"
#include "runtime/tools/inspect.h"
#include "runtime/tools/inspect_html.h"
#include "runtime/tools/machine_rates.h"
#include "runtime/tools/one_rank.h"
#include "runtime/tools/reduce.h"
#include "runtime/tools/references.h"
#include "runtime/tools/run_process.h"
#include "runtime/tools/timeline.h"
#include "runtime/tools/trace.h"
#include "runtime/tools/train.h"
#include "runtime/tools/train_options.h"
#include "runtime/tools/verify.h"

namespace cotan::tools {
namespace {

using serialization::Reference;

// The options of each command. `diff` has none, and those of `train` are TrainOptionNames().
constexpr absl::string_view kInspectOptions[] = {"program", "html", "profile"};
constexpr absl::string_view kVerifyOptions[] = {"threads", "device", "flush_denormals"};
constexpr absl::string_view kBenchOptions[] = {"threads", "steps",    "method", "profile",
                                               "trace",   "timeline", "device", "flush_denormals"};
constexpr absl::string_view kRunOptions[] = {"threads", "steps",   "method", "checkpoint",
                                             "save",    "numbers", "device", "flush_denormals"};
constexpr absl::string_view kAdaptersOptions[] = {"out", "merge", "checkpoint", "threads", "device"};
constexpr absl::string_view kReduceOptions[] = {"out", "method"};

// The number of steps that a profile shows.
constexpr size_t kProfileRows = 40;

// The number of calls of each method that a trace has.
constexpr int kTracedCalls = 3;

// The arguments of a command.
struct Context {
  CommandLine line;
  std::string path;
  std::vector<std::string> rest;  // after "--"
  SessionOptions options;
  std::ostream& out;
};

Device& DeviceOf(const SessionOptions& options) { return options.device == nullptr ? HostDevice() : *options.device; }

absl::Status WriteHtml(const Context& context, const Program& program) {
  const std::string path = context.line.Text("html", "");
  if (path.empty()) return absl::InvalidArgumentError("give --html=FILE");
  std::map<std::string, std::vector<ProfiledStep>> profile;
  if (context.line.Has("profile")) {
    COTAN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(context.line.Text("profile", "")));
    COTAN_ASSIGN_OR_RETURN(profile, ParseProfile(file.bytes()));
  }
  COTAN_ASSIGN_OR_RETURN(const std::string page, InspectHtml(program, context.path, profile, context.options.kernels));
  return WriteFileAtomically(path, {page});
}

absl::Status InspectCommand(const Context& context) {
  if (context.line.Has("profile") && !context.line.Has("html")) {
    return absl::InvalidArgumentError("--profile needs --html=FILE, the page that shows the times");
  }
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(context.path));
  if (context.line.Has("html")) return WriteHtml(context, *program);
  context.out << context.path << ": " << InspectText(*program, context.line.Has("program"));
  return absl::OkStatus();
}

absl::Status VerifyCommand(const Context& context) {
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(context.path, RecordedRuns::kMap));
  COTAN_ASSIGN_OR_RETURN(const VerifyResult result, Verify(program, context.options, context.out));
  context.out << result.passed << " passed, " << result.failed << " failed\n";
  if (result.failed == 0) return absl::OkStatus();
  return absl::AbortedError("results of this device differ from the recorded ones: see the lines that begin with FAIL");
}

// Returns FILE of an option --NAME=FILE, or "" if the option is not given. InvalidArgument: it has no FILE.
absl::StatusOr<std::string> FileOption(const CommandLine& line, const std::string& name) {
  std::string path = line.Text(name, "");
  if (line.Has(name) && path.empty()) return absl::InvalidArgumentError(absl::StrCat("give --", name, "=FILE"));
  return path;
}

// Returns the rates that bound the steps of a profile; none for a device, whose rates are not measured.
absl::StatusOr<std::optional<MachineRates>> RatesOf(const SessionOptions& options) {
  if (DeviceOf(options).type() != DeviceType::kCpu) return std::nullopt;
  const int threads = StepThreads(options.threads);
  return MachineRates::Measure(*options.kernels, threads, {DType::kFloat32, DType::kFloat64, DType::kBFloat16});
}

absl::StatusOr<std::vector<std::string>> MethodsToBench(const Context& context) {
  if (context.line.Has("method")) return std::vector<std::string>{context.line.Text("method", "")};
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(context.path));
  std::vector<std::string> methods = BenchMethods(*program);
  if (!methods.empty()) return methods;
  return absl::FailedPreconditionError("the artifact records no run to measure: compile it with references");
}

absl::Status WriteBenchFiles(const Context& context, absl::Span<const BenchResult> results) {
  COTAN_ASSIGN_OR_RETURN(const std::string trace_path, FileOption(context.line, "trace"));
  COTAN_ASSIGN_OR_RETURN(const std::string timeline_path, FileOption(context.line, "timeline"));
  const std::string profile_path = context.line.Text("profile", "");
  std::string profile;
  std::vector<TracedMethod> traces;
  std::vector<TimelineMethod> timeline;
  for (const BenchResult& result : results) {
    profile += ProfileLines(result.method, result.profile);
    traces.push_back(result.trace);
    timeline.push_back({result.method, result.profile});
  }
  if (!profile_path.empty()) COTAN_RETURN_IF_ERROR(WriteFileAtomically(profile_path, {profile}));
  if (!timeline_path.empty()) COTAN_RETURN_IF_ERROR(WriteFileAtomically(timeline_path, {TimelineSvg(timeline)}));
  if (trace_path.empty()) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(context.path));
  return WriteFileAtomically(trace_path, {TraceText(*program, traces, context.options.kernels)});
}

absl::Status BenchCommand(const Context& context) {
  COTAN_ASSIGN_OR_RETURN(const int steps, context.line.Number("steps", 100, 1));
  COTAN_ASSIGN_OR_RETURN(const std::string trace_path, FileOption(context.line, "trace"));
  COTAN_ASSIGN_OR_RETURN(const std::string timeline_path, FileOption(context.line, "timeline"));
  COTAN_ASSIGN_OR_RETURN(const std::vector<std::string> methods, MethodsToBench(context));
  BenchOptions options = {.steps = steps,
                          .profile = context.line.Has("profile") || !timeline_path.empty(),
                          .traced_calls = trace_path.empty() ? 0 : kTracedCalls};
  std::optional<MachineRates> rates;
  if (options.profile) {
    COTAN_ASSIGN_OR_RETURN(rates, RatesOf(context.options));
  }
  if (rates.has_value()) {
    options.rates = &*rates;
    context.out << "rates of this machine: " << rates->ToString() << "\n";
  }
  std::vector<BenchResult> results;
  for (const std::string& method : methods) {
    COTAN_ASSIGN_OR_RETURN(results.emplace_back(), Bench(context.path, method, options, context.options));
    context.out << BenchText(results.back()) << "\n";
    if (options.profile) context.out << ProfileText(results.back().profile, kProfileRows);
  }
  context.out << ResidentText();
  return WriteBenchFiles(context, results);
}

absl::Status DiffCommand(const Context& context) {
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> a, Program::Load(context.path));
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> b, Program::Load(context.line.words()[2]));
  const std::string text = DiffText(*a, *b);
  context.out << text;
  return text.empty() ? absl::OkStatus() : absl::AbortedError("the artifacts differ");
}

void PrintTensor(const std::string& name, const Tensor& tensor, std::ostream& out) {
  constexpr int64_t kShown = 8;
  out << "  " << name << ": " << tensor.ToString();
  const absl::StatusOr<std::vector<float>> values = tensor.ToVector<float>();
  if (values.ok() && tensor.num_elements() <= kShown) out << " = [" << absl::StrJoin(*values, ", ") << "]";
  out << "\n";
}

// Returns "true", "false", an integer or another number.
absl::StatusOr<NumberValue> ParseNumber(absl::string_view text) {
  int64_t integer = 0;
  double number = 0;
  if (text == "true" || text == "false") return NumberValue(text == "true");
  if (absl::SimpleAtoi(text, &integer)) return NumberValue(integer);
  if (absl::SimpleAtod(text, &number)) return NumberValue(number);
  return absl::InvalidArgumentError(absl::StrCat("--numbers: '", text, "' is not a number"));
}

// Replaces arguments that are numbers by those of `text`: "scale=0.5,input.2=3".
absl::Status SetNumbers(const Program& program, const serialization::Method& method, absl::string_view text,
                        std::vector<Tensor>& arguments) {
  for (absl::string_view entry : absl::StrSplit(text, ',', absl::SkipEmpty())) {
    const std::vector<absl::string_view> parts = absl::StrSplit(entry, absl::MaxSplits('=', 1));
    size_t input = 0;
    while (input < arguments.size() && program.InputName(method, static_cast<int>(input)) != parts[0]) ++input;
    if (parts.size() != 2 || input == arguments.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--numbers: '", entry, "' is not INPUT=NUMBER with an input of '", method.name(), "'"));
    }
    COTAN_ASSIGN_OR_RETURN(const NumberValue number, ParseNumber(parts[1]));
    const auto value = static_cast<int>(method.inputs(static_cast<int>(input)));
    COTAN_ASSIGN_OR_RETURN(arguments[input], TensorOfNumber(number, method.values(value).type(), parts[0]));
  }
  return absl::OkStatus();
}

// Calls a method repeatedly with its recorded arguments, except for numbers that --numbers gives.
absl::Status RunMethod(const Context& context) {
  COTAN_ASSIGN_OR_RETURN(const int steps, context.line.Number("steps", 1, 1));
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(context.path, RecordedRuns::kMap));
  SingleRank rank;
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, WithOneRank(*program, context.options, rank)));
  if (context.line.Has("checkpoint"))
    COTAN_RETURN_IF_ERROR(session.LoadCheckpoint(context.line.Text("checkpoint", "")));
  const std::string method = context.line.Text("method", "train_step");
  COTAN_ASSIGN_OR_RETURN(const Reference* const reference, FindReference(*program, method));
  COTAN_ASSIGN_OR_RETURN(std::vector<Tensor> arguments, LoadArguments(*program, *reference, DeviceOf(context.options)));
  COTAN_ASSIGN_OR_RETURN(const int index, program->FindMethod(method));
  COTAN_RETURN_IF_ERROR(SetNumbers(*program, program->method(index), context.line.Text("numbers", ""), arguments));
  for (int step = 1; step <= steps; ++step) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> results, session.Run(method, arguments));
    context.out << method << ", call " << step << "\n";
    for (size_t i = 0; i < results.size(); ++i) {
      COTAN_ASSIGN_OR_RETURN(const Tensor result, results[i].ToHost());
      PrintTensor(program->OutputName(program->method(index), static_cast<int>(i)), result, context.out);
    }
  }
  return context.line.Has("save") ? session.SaveCheckpoint(context.line.Text("save", "")) : absl::OkStatus();
}

absl::Status AdaptersCommand(const Context& context) {
  const std::string folder = context.line.Text("out", "");
  if (folder.empty()) return absl::InvalidArgumentError("give --out=FOLDER, which exists");
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(context.path));
  SingleRank rank;
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, WithOneRank(*program, context.options, rank)));
  if (context.line.Has("checkpoint")) {
    COTAN_RETURN_IF_ERROR(session.LoadCheckpoint(context.line.Text("checkpoint", "")));
  }
  return context.line.Has("merge") ? SaveMerged(session, folder) : SaveAdapters(session, folder);
}

// Replaces "{}" in the words after "--" by the candidate's file.
absl::Status ReduceCommand(const Context& context) {
  const std::string out = context.line.Text("out", "");
  if (out.empty() || context.rest.empty()) {
    return absl::InvalidArgumentError("expected `cotan reduce FILE.cotan --out=FILE -- COMMAND {}`");
  }
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(context.path, RecordedRuns::kMap));
  const std::string candidate = absl::StrCat(out, ".candidate");
  std::vector<std::string> words;
  for (const std::string& word : context.rest) words.push_back(absl::StrReplaceAll(word, {{"{}", candidate}}));
  const auto fails = [&](absl::string_view bytes) -> absl::StatusOr<bool> {
    COTAN_RETURN_IF_ERROR(WriteFileAtomically(candidate, {bytes}));
    COTAN_ASSIGN_OR_RETURN(const int status, RunProcess(words));
    return status != 0;
  };
  const std::string first = program->artifact().methods().empty() ? "" : program->method(0).name();
  absl::StatusOr<Reduction> reduction = Reduce(*program, context.line.Text("method", first), fails);
  std::remove(candidate.c_str());
  COTAN_RETURN_IF_ERROR(reduction.status());
  context.out << out << ": " << reduction->num_ops << " ops, " << reduction->bytes.size() << " bytes, after "
              << reduction->candidates << " candidates\n";
  return WriteFileAtomically(out, {reduction->bytes});
}

absl::Status TrainCommand(const Context& context) {
  return Train(context.line, context.path, context.options, context.out);
}

struct Command {
  absl::string_view name;
  absl::Status (*run)(const Context& context);
  absl::Span<const absl::string_view> options;
};

constexpr Command kCommands[] = {
    {"inspect", InspectCommand, kInspectOptions},
    {"verify", VerifyCommand, kVerifyOptions},
    {"bench", BenchCommand, kBenchOptions},
    {"run", RunMethod, kRunOptions},
    {"adapters", AdaptersCommand, kAdaptersOptions},
    {"train", TrainCommand, {}},
    {"diff", DiffCommand, {}},
    {"reduce", ReduceCommand, kReduceOptions},
};

// Returns the command of this name, or null.
const Command* FindCommand(absl::string_view name) {
  for (const Command& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

// Parses the arguments of a command. InvalidArgument: there is an option that it does not have.
absl::StatusOr<CommandLine> ParseArguments(const Command& command, absl::Span<const char* const> arguments) {
  absl::StatusOr<CommandLine> line =
      CommandLine::Parse(arguments, command.name == "train" ? TrainOptionNames() : command.options);
  if (line.ok()) return line;
  return absl::Status(line.status().code(), absl::StrCat(command.name, ": ", line.status().message()));
}

}  // namespace

absl::string_view Usage() {
  return "usage: cotan COMMAND FILE.cotan [options]\n"
         "  inspect   methods, signatures, metadata, states, ops; --program: the text of each method;\n"
         "            --html=FILE: a page with graph, memory and steps; --profile=FILE of bench: with times\n"
         "  verify    replays the recorded runs on this device; a line for each result\n"
         "  bench     time per call of each method with a recorded run;\n"
         "            --method=NAME --steps=N --threads=N; --profile: the most expensive steps, minimum over N runs;\n"
         "            --profile=FILE: all of them, for inspect --html; --trace=FILE: three calls, for "
         "ui.perfetto.dev;\n"
         "            --timeline=FILE: a picture (SVG) of the steps and their bounds\n"
         "  run       calls a method with its recorded arguments and prints the results;\n"
         "            --method=NAME --steps=N --threads=N --checkpoint=IN --save=OUT (safetensors)\n"
         "            --numbers=INPUT=NUMBER,...: other numbers for inputs that are numbers\n"
         "  adapters  writes the LoRA adapters to --out=FOLDER, with the names of PEFT; --merge: the model with the\n"
         "            adapters added to its weights; --checkpoint=IN: values of this checkpoint\n"
         "  train     trains on a data set, with checkpoints; cotan train --help\n"
         "  diff      what differs between two artifacts: cotan diff A.cotan B.cotan\n"
         "  reduce    smallest program for which a command still fails; --out=FILE -- COMMAND [ARGUMENT...]\n"
         "  link      fuses recorded backwards of several artifacts; cotan link --help\n"
         "  pack      decodes a folder of images to a file for train; cotan pack --help\n"
         "bench, run, verify, adapters, train: --device=cpu (the default) or --device=cuda\n"
         "bench, run, verify, train: --flush_denormals: take subnormal numbers as zeros (SessionOptions)\n"
         "link and pack are the programs cotan-link and cotan-pack, which are beside cotan or in PATH. Other programs\n"
         "cotan-NAME are commands, too.\n";
}

bool IsCommand(absl::string_view name) { return FindCommand(name) != nullptr; }

absl::Status RunCommand(absl::Span<const char* const> arguments, OpenBackend open_backend, std::ostream& out) {
  const auto end = std::find(arguments.begin(), arguments.end(), absl::string_view("--"));
  const auto word = std::find_if(arguments.begin(), end,
                                 [](absl::string_view argument) { return !absl::StartsWith(argument, "--"); });
  if (word == end) return absl::InvalidArgumentError(absl::StrCat("expected a command and a file\n", Usage()));
  const absl::string_view name = *word;
  const Command* const command = FindCommand(name);
  if (command == nullptr) return absl::InvalidArgumentError(absl::StrCat("unknown command '", name, "'\n", Usage()));
  COTAN_ASSIGN_OR_RETURN(const CommandLine line,
                         ParseArguments(*command, arguments.first(static_cast<size_t>(end - arguments.begin()))));
  if (line.Has("help")) {
    out << TrainUsage();
    return absl::OkStatus();
  }
  const std::vector<std::string> rest(end == arguments.end() ? end : end + 1, arguments.end());
  if (line.words().size() != (name == "diff" ? 3 : 2)) {
    return absl::InvalidArgumentError(absl::StrCat("expected a command and a file\n", Usage()));
  }
  COTAN_ASSIGN_OR_RETURN(const int threads, line.Number("threads", 0, 1));
  const std::string path = line.words()[1];
  COTAN_ASSIGN_OR_RETURN(const Backend backend, open_backend(line.Text("device", "cpu")));
  SessionOptions options = {.kernels = backend.kernels,
                            .device = backend.device,
                            .threads = threads,
                            .flush_denormals = line.Has("flush_denormals")};
  // Effects print nothing during bench and verify.
  const EffectHandler handler = [&out, is_shown = name == "run"](const EffectEvent& event) {
    if (is_shown) out << EffectText(event) << "\n";
    return absl::OkStatus();
  };
  options.effects.Set(EffectKind::kPrint, handler).Set(EffectKind::kMetric, handler);
  return command->run({line, path, rest, options, out});
}

int ExitStatus(absl::Span<const char* const> arguments, const absl::Status& status) {
  if (status.ok()) return 0;
  if (absl::IsCancelled(status)) return 130;  // as a shell reports SIGINT
  const bool is_diff = !arguments.empty() && absl::string_view(arguments[0]) == "diff";
  return is_diff && !absl::IsAborted(status) ? 2 : 1;
}

}  // namespace cotan::tools
