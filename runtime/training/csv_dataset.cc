// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/csv_dataset.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace cotan::training {
namespace {

// UTF-8 for U+FEFF, which some programs write first.
constexpr absl::string_view kByteOrderMark = "\xef\xbb\xbf";

// Returns a field as messages show it.
std::string Shown(absl::string_view field) {
  constexpr size_t kShown = 40;
  return absl::StrCat("'", absl::CEscape(field.substr(0, kShown)), field.size() > kShown ? "...'" : "'");
}

std::optional<double> FiniteNumber(absl::string_view field) {
  double number = 0;
  if (!absl::SimpleAtod(field, &number) || !std::isfinite(number)) return std::nullopt;
  return number;
}

// The fields of one line. A quoted field may hold line ends.
struct Record {
  std::vector<std::string> fields;
  int64_t line = 0;  // where it begins, from 1
};

// Cuts a text into records.
class RecordReader {
 public:
  RecordReader(absl::string_view text, absl::string_view name, char delimiter)
      : text_(text), name_(name), delimiter_(delimiter) {}

  // Reads the next record that is not blank. Returns false at the end of the text.
  absl::StatusOr<bool> Next(Record& record) {
    while (position_ < text_.size()) {
      record.fields.clear();
      record.line = line_;
      COTAN_RETURN_IF_ERROR(ReadRecord(record));
      if (record.fields.size() > 1 || !record.fields[0].empty()) return true;
    }
    return false;
  }

 private:
  absl::Status ReadRecord(Record& record) {
    for (;;) {
      record.fields.emplace_back();
      COTAN_RETURN_IF_ERROR(ReadField(record.fields.back(), record));
      if (position_ == text_.size()) return absl::OkStatus();
      const char end = text_[position_++];
      if (end == delimiter_) continue;
      ++line_;
      return absl::OkStatus();
    }
  }

  bool AtLineEnd() const {
    const absl::string_view rest = text_.substr(position_, 2);
    return rest.empty() || rest[0] == '\n' || rest == "\r\n";
  }

  // Reads up to the delimiter or '\n' that ends the field.
  absl::Status ReadField(std::string& field, const Record& record) {
    while (position_ < text_.size() && text_[position_] == ' ') ++position_;
    const bool quoted = position_ < text_.size() && text_[position_] == '"';
    if (quoted) COTAN_RETURN_IF_ERROR(ReadQuoted(field, record));
    const size_t start = position_;
    while (!AtLineEnd() && text_[position_] != delimiter_) ++position_;
    const absl::string_view rest = absl::StripAsciiWhitespace(text_.substr(start, position_ - start));
    if (quoted && !rest.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(name_, ":", line_, ": field ", record.fields.size(), ": ",
                                                     Shown(rest),
                                                     " follows the closing quote; write \"\" for a quote"));
    }
    field.append(rest.data(), rest.size());
    if (text_.substr(position_, 2) == "\r\n") ++position_;
    return absl::OkStatus();
  }

  absl::Status ReadQuoted(std::string& field, const Record& record) {
    for (++position_; position_ < text_.size(); ++position_) {
      const char c = text_[position_];
      if (c == '\n') ++line_;
      if (c != '"') {
        field.push_back(c);
        continue;
      }
      ++position_;
      if (position_ == text_.size() || text_[position_] != '"') return absl::OkStatus();
      field.push_back('"');
    }
    return absl::InvalidArgumentError(absl::StrCat(name_, ":", record.line, ": field ", record.fields.size(),
                                                   " begins with a quote that is not closed"));
  }

  const absl::string_view text_;
  const absl::string_view name_;
  const char delimiter_;
  size_t position_ = 0;
  int64_t line_ = 1;
};

// Collects the numbers of all records.
class Table {
 public:
  Table(absl::string_view name, const CsvOptions& options) : name_(name), options_(options) {}

  // Adds the first record: the header, or an example.
  absl::Status Begin(const Record& record) {
    columns_ = record.fields.size();
    first_line_ = record.line;
    if (IsHeader(record)) header_ = record.fields;
    COTAN_RETURN_IF_ERROR(FindTargets());
    return header_.empty() ? Add(record) : absl::OkStatus();
  }

  absl::Status Add(const Record& record) {
    if (record.fields.size() != columns_) {
      return absl::InvalidArgumentError(absl::StrCat(name_, ":", record.line, ": ", record.fields.size(),
                                                     " fields, but line ", first_line_, " has ", columns_,
                                                     "; is the delimiter '", Delimiter(), "'?"));
    }
    for (size_t i = 0; i < columns_; ++i) {
      COTAN_ASSIGN_OR_RETURN(const double number, is_target_[i] ? Target(record, i) : Number(record, i));
      (is_target_[i] ? targets_ : inputs_).push_back(number);
    }
    ++examples_;
    return absl::OkStatus();
  }

  absl::StatusOr<Dataset> Finish() const {
    if (examples_ == 0) {
      return absl::InvalidArgumentError(absl::StrCat(name_, ": there are no examples; expected lines of numbers"));
    }
    const auto num_targets = static_cast<int64_t>(target_columns_);
    const int64_t num_inputs = static_cast<int64_t>(columns_) - num_targets;
    std::vector<Column> columns(1);
    columns[0].name = "inputs";
    COTAN_ASSIGN_OR_RETURN(columns[0].values, Tensor::From<double>(inputs_, {examples_, num_inputs}));
    if (num_targets == 0) return Dataset::Create(std::move(columns));
    // The columns in the order in which they are asked for, not in that of the file.
    columns.push_back({"targets", {}});
    COTAN_ASSIGN_OR_RETURN(columns[1].values, Tensor::From<double>(InOrder(), {examples_, num_targets}));
    return Dataset::Create(std::move(columns));
  }

 private:
  std::string Delimiter() const { return absl::CEscape(std::string(1, options_.delimiter)); }

  // A class is not a number, but does not make a header of the line that it is in; neither does an infinity or NaN,
  // which Add() refuses.
  bool IsHeader(const Record& record) const {
    return std::any_of(record.fields.begin(), record.fields.end(), [this](const std::string& field) {
      const bool is_class =
          std::find(options_.classes.begin(), options_.classes.end(), field) != options_.classes.end();
      double number = 0;
      return !field.empty() && !is_class && !absl::SimpleAtod(field, &number);
    });
  }

  std::string FieldName(size_t column) const {
    return header_.empty() ? absl::StrCat("field ", column + 1)
                           : absl::StrCat("field ", column + 1, " (", Shown(header_[column]), ")");
  }

  absl::Status Error(const Record& record, size_t column, absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(name_, ":", record.line, ": ", FieldName(column), " ", what));
  }

  absl::StatusOr<double> Number(const Record& record, size_t column) const {
    const std::string& field = record.fields[column];
    if (const std::optional<double> number = FiniteNumber(field)) return *number;
    if (field.empty()) return Error(record, column, "is empty; write a number, or remove the line");
    return Error(record, column, absl::StrCat("is ", Shown(field), "; expected a finite number"));
  }

  absl::StatusOr<double> Target(const Record& record, size_t column) const {
    if (options_.classes.empty()) return Number(record, column);
    const std::string& field = record.fields[column];
    const auto found = std::find(options_.classes.begin(), options_.classes.end(), field);
    if (found != options_.classes.end()) return static_cast<double>(found - options_.classes.begin());
    return Error(
        record, column,
        absl::StrCat("is ", Shown(field), ", which is not one of the classes ", absl::StrJoin(options_.classes, ", ")));
  }

  // Finds the column of a name of the header or a number.
  absl::StatusOr<size_t> FindColumn(const std::string& target) const {
    const auto found = std::find(header_.begin(), header_.end(), target);
    if (found != header_.end()) return static_cast<size_t>(found - header_.begin());
    int64_t number = 0;
    const auto count = static_cast<int64_t>(columns_);
    if (absl::SimpleAtoi(target, &number) && number >= -count && number < count) {
      return static_cast<size_t>(number < 0 ? number + count : number);
    }
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ":", first_line_, ": there is no target column ", Shown(target), "; ",
                     header_.empty() ? absl::StrCat("without a header, columns are numbers from 0 to ", count - 1)
                                     : absl::StrCat("the header has ", absl::CEscape(absl::StrJoin(header_, ", ")))));
  }

  absl::Status FindTargets() {
    is_target_.assign(columns_, false);
    std::vector<size_t> found;
    for (const std::string& target : options_.targets) {
      COTAN_ASSIGN_OR_RETURN(const size_t column, FindColumn(target));
      if (is_target_[column]) {
        return absl::InvalidArgumentError(absl::StrCat(name_, ": target column ", Shown(target), " is given twice"));
      }
      is_target_[column] = true;
      found.push_back(column);
    }
    target_columns_ = found.size();
    if (target_columns_ == columns_) {
      return absl::InvalidArgumentError(
          absl::StrCat(name_, ":", first_line_, ": all ", columns_, " columns are targets; none is left as an input"));
    }
    // Place of each asked-for column among the targets of the file.
    for (const size_t column : found) {
      target_order_.push_back(static_cast<size_t>(
          std::count(is_target_.begin(), is_target_.begin() + static_cast<std::ptrdiff_t>(column), true)));
    }
    return absl::OkStatus();
  }

  std::vector<double> InOrder() const {
    std::vector<double> ordered;
    ordered.reserve(targets_.size());
    for (size_t row = 0; row < targets_.size(); row += target_columns_) {
      for (const size_t place : target_order_) ordered.push_back(targets_[row + place]);
    }
    return ordered;
  }

  const absl::string_view name_;
  const CsvOptions& options_;
  size_t columns_ = 0;
  size_t target_columns_ = 0;
  int64_t first_line_ = 0;
  int64_t examples_ = 0;
  std::vector<std::string> header_;
  std::vector<bool> is_target_;       // by column
  std::vector<size_t> target_order_;  // by CsvOptions::targets
  std::vector<double> inputs_;        // row by row
  std::vector<double> targets_;       // row by row, in the order of the file
};

}  // namespace

absl::StatusOr<Dataset> ParseCsv(absl::string_view text, absl::string_view name, const CsvOptions& options) {
  absl::ConsumePrefix(&text, kByteOrderMark);
  RecordReader reader(text, name, options.delimiter);
  Table table(name, options);
  Record record;
  bool is_first = true;
  for (;;) {
    COTAN_ASSIGN_OR_RETURN(const bool has_record, reader.Next(record));
    if (!has_record) return table.Finish();
    COTAN_RETURN_IF_ERROR(is_first ? table.Begin(record) : table.Add(record));
    is_first = false;
  }
}

absl::StatusOr<Dataset> ReadCsv(const std::string& path, const CsvOptions& options) {
  COTAN_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return ParseCsv(file.bytes(), path, options);
}

}  // namespace cotan::training
