// SPDX-License-Identifier: Apache-2.0

// Comparisons of a case: one function per mode of the runner.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_MODES_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_MODES_H_

#include "runtime/session.h"
#include "testing/conformance/harness/compiled_run.h"
#include "testing/conformance/harness/conf_case.h"
#include "testing/conformance/harness/difference.h"
#include "testing/conformance/harness/golden.h"
#include "testing/conformance/harness/refusal_table.h"

namespace cotan::conformance {

// Compares the artifact's metadata with `facts`, with input mutations inside and outside of the
// program. If the reference's results differ from eager's, Cotan's metadata may differ from the
// reference's: then a case passes if it compiles to valid metadata, or if both eager and Cotan
// refuse it.
void CheckMetadata(const ConfCase& c, const Json& facts, Differences& differences);

// Compares two calls through the artifact, each on fresh inputs, with eager: elements, geometry,
// identity, sharing, place in the graph, versions, grad mode. If eager refuses the call or its
// backward, Cotan has to (CompareRefusals() in refusal_stage.h). Sessions have `options`, here and below; arguments and
// tangents are on their device.
void CheckEager(const ConfCase& c, const Json& facts, Differences& differences,
                const SessionOptions& options = OnHost());

// Compares the gradients after these calls.
void CheckGradients(const ConfCase& c, const Json& facts, Differences& differences,
                    const SessionOptions& options = OnHost());

// Compares metadata, calls and gradients of the case compiled for any sizes not below its own
// (dynamic=True of the reference), called at these and at larger ones. Sizes of inputs that share
// memory stay fixed; they, and cases that are not called at larger sizes, are counted as not
// compared.
void CheckDynamic(const ConfCase& c, const Json& facts, Differences& differences,
                  const SessionOptions& options = OnHost());

// Compares the metadata of an artifact with dynamic sizes; part of CheckDynamic().
void CheckDynamicMetadata(const std::string& artifact, const Json& facts, Differences& differences);

// Compares calls and gradients of a case without a golden. If eager refuses, Cotan has to.
void CheckProgram(const ConfCase& c, Differences& differences, const SessionOptions& options = OnHost());

// Checks a function that the reference refuses or accepts; `golden` has the entry point, the
// options and the expected signature.
void CheckRefusal(const RefusalCase& c, const Json& golden, Differences& differences);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_MODES_H_
