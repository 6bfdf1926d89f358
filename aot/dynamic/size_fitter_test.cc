// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/size_fitter.h"

#include <cmath>
#include <functional>

#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

const std::vector<DimVector> kOne = {{11}, {14}, {13}};
const std::vector<DimVector> kTwo = {{11, 17}, {14, 22}, {13, 23}, {19, 29}};

std::vector<int64_t> Sample(const std::vector<DimVector>& points, const std::function<int64_t(const DimVector&)>& f) {
  std::vector<int64_t> values;
  for (const DimVector& point : points) values.push_back(f(point));
  return values;
}

std::vector<double> SampleNumbers(const std::vector<DimVector>& points,
                                  const std::function<double(const DimVector&)>& f) {
  std::vector<double> values;
  for (const DimVector& point : points) values.push_back(f(point));
  return values;
}

// Expects that the fitted expression equals the function at other points too.
void ExpectFound(const std::vector<DimVector>& points, const std::vector<DimVector>& elsewhere,
                 const std::function<int64_t(const DimVector&)>& f) {
  SizeFitter fitter(points);
  const std::optional<SymInt> found = fitter.Fit(Sample(points, f));
  ASSERT_TRUE(found.has_value());
  for (const DimVector& point : elsewhere) EXPECT_EQ(*found->Evaluate(point), f(point)) << found->ToString();
}

TEST(SizeFitterTest, FindsMultiplesSumsAndProducts) {
  const std::vector<DimVector> one = {{1}, {2}, {64}, {1000}};
  ExpectFound(kOne, one, [](const DimVector& s) { return s[0]; });
  ExpectFound(kOne, one, [](const DimVector&) { return 5; });
  ExpectFound(kOne, one, [](const DimVector& s) { return 12 * s[0] - 3; });
  ExpectFound(kOne, one, [](const DimVector& s) { return 100 - s[0]; });
  ExpectFound(kOne, one, [](const DimVector& s) { return 3 * s[0] * s[0]; });
  ExpectFound(kOne, one, [](const DimVector& s) { return s[0] / 2; });
  ExpectFound(kOne, one, [](const DimVector& s) { return (40 * s[0] + 3) / 4; });

  const std::vector<DimVector> two = {{1, 1}, {2, 128}, {64, 7}};
  ExpectFound(kTwo, two, [](const DimVector& s) { return s[1]; });
  ExpectFound(kTwo, two, [](const DimVector& s) { return 768 * s[0] * s[1]; });
  ExpectFound(kTwo, two, [](const DimVector& s) { return s[0] * s[1] * s[1] * 4; });
  ExpectFound(kTwo, two, [](const DimVector& s) { return s[0] + s[1]; });
  ExpectFound(kTwo, two, [](const DimVector& s) { return 8 * s[0] * s[1] + 3 * s[1] + 1; });
}

TEST(SizeFitterTest, KnownSizesAreFactors) {
  SizeFitter fitter(kTwo);
  const SymInt half = SymInt::Binary(SymInt::Kind::kFloorDiv, SymInt::Symbol(1) + SymInt(1), 2);
  const auto values = Sample(kTwo, [](const DimVector& s) { return s[0] * 16 * ((s[1] + 1) / 2) * ((s[1] + 1) / 2); });
  EXPECT_FALSE(fitter.FitLine(values).has_value());
  fitter.AddKnown(half);
  const std::optional<SymInt> found = fitter.Fit(values);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(*found->Evaluate({3, 40}), 3 * 16 * 20 * 20) << found->ToString();
}

TEST(SizeFitterTest, RememberedExpressionsAreFound) {
  SizeFitter fitter(kOne);
  const SymInt blocks = SymInt::Binary(SymInt::Kind::kFloorDiv, SymInt::Symbol(0) * SymInt(5) + SymInt(3), 4) +
                        SymInt::Binary(SymInt::Kind::kFloorDiv, SymInt::Symbol(0) * SymInt(7) + SymInt(3), 4);
  fitter.Remember(blocks);
  EXPECT_EQ(fitter.Fit(Sample(kOne, [](const DimVector& s) { return (5 * s[0] + 3) / 4 + (7 * s[0] + 3) / 4; })),
            blocks);
}

TEST(SizeFitterTest, RoundedSizesAndManySizesAreMultiplied) {
  SizeFitter fitter(kTwo);
  fitter.Remember(SymInt::Binary(SymInt::Kind::kFloorDiv, SymInt::Symbol(0) + SymInt(1), 2));
  const std::vector<std::function<int64_t(const DimVector&)>> functions = {
      [](const DimVector& s) { return (s[0] + 1) / 2 * s[1] * 3; },
      [](const DimVector& s) { return s[0] * s[0] * s[0] * s[1]; },
      [](const DimVector& s) { return s[0] * s[0] * s[1] * s[1]; },
  };
  for (const auto& function : functions) {
    const std::optional<SymInt> found = fitter.Fit(Sample(kTwo, function));
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(*found->Evaluate({5, 40}), function({5, 40})) << found->ToString();
  }
}

TEST(SizeFitterTest, OtherFunctionsAreNotFound) {
  SizeFitter fitter(kOne);
  EXPECT_FALSE(fitter.Fit({1000, 3, 70000}).has_value());
  EXPECT_FALSE(fitter.Fit({1 << 11, 1 << 14, 1 << 13}).has_value());
}

TEST(SizeFitterTest, FindsNumbers) {
  const std::vector<std::function<double(double)>> functions = {
      [](double n) { return 1 / n; },
      [](double n) { return 0.1 / (49 * n); },
      [](double n) { return n * 0.25; },
      [](double n) { return n / (n - 1); },
      [](double n) { return 2 / (n - 1); },
      [](double n) { return 1 / std::sqrt(n); },
      [](double n) { return std::sqrt(3 * n); },
  };
  for (size_t i = 0; i < functions.size(); ++i) {
    SizeFitter fitter(kOne);
    const std::optional<NumberFit> fit = fitter.FitNumber(
        SampleNumbers(kOne, [&](const DimVector& s) { return functions[i](static_cast<double>(s[0])); }), 1e-14);
    ASSERT_TRUE(fit.has_value()) << i;
    const double expected = functions[i](40);
    EXPECT_NEAR(fit->Evaluate(*fit->size.Evaluate({40})), expected, 1e-12 * expected) << i;
  }
  SizeFitter fitter(kOne);
  EXPECT_FALSE(fitter.FitNumber({1.0, 2.5, 77.7}, 1e-14).has_value());
  EXPECT_FALSE(fitter.FitNumber({0.0, 2.5, 77.7}, 1e-14).has_value());
}

TEST(SizeFitterTest, NumbersMayBeRounded) {
  SizeFitter fitter(kOne);
  const auto rounded =
      SampleNumbers(kOne, [](const DimVector& s) { return 1.0F / (49.0F * static_cast<float>(s[0])); });
  const std::optional<NumberFit> fit = fitter.FitNumber(rounded, 2.5e-7);
  ASSERT_TRUE(fit.has_value());
  EXPECT_EQ(fit->Evaluate(*fit->size.Evaluate({100})), 1.0 / 4900);
}

}  // namespace
}  // namespace cotan::aot
