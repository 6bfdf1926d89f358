// What is compared about a case: one function per mode of the runner.
#ifndef COTAN_TESTING_CONFORMANCE_HARNESS_MODES_H_
#define COTAN_TESTING_CONFORMANCE_HARNESS_MODES_H_

#include "testing/conformance/harness/conf_case.h"
#include "testing/conformance/harness/difference.h"
#include "testing/conformance/harness/golden.h"
#include "testing/conformance/harness/refusal_table.h"

namespace cotan::conformance {

// The metadata in the artifact against `facts`, with input mutations inside the
// program and outside. Where the reference's results differ from eager, so may
// Cotan's metadata differ from the reference's: then a case passes that
// compiles to valid metadata, or that eager refuses as Cotan does.
void CheckMetadata(const ConfCase& c, const Json& facts, Differences& differences);

// Calls through the artifact against eager, twice, each on fresh inputs:
// elements, geometry, identity, sharing, place in the graph, versions, grad
// mode. Where eager refuses, here or in the backward, Cotan has to
// (CompareRefusals() in refusal_stage.h).
void CheckEager(const ConfCase& c, const Json& facts, Differences& differences);

// The gradients that follow from these calls.
void CheckGradients(const ConfCase& c, const Json& facts, Differences& differences);

// Metadata, calls and gradients of the case compiled for any sizes not below its
// own (dynamic=True of the reference), called at these and at larger ones. Sizes
// of inputs that share memory stay fixed; they, and cases that are not called at
// larger sizes, are counted as not compared.
void CheckDynamic(const ConfCase& c, const Json& facts, Differences& differences);

// The metadata of an artifact with dynamic sizes; part of CheckDynamic().
void CheckDynamicMetadata(const std::string& artifact, const Json& facts, Differences& differences);

// Calls and gradients of a case without golden. Where eager refuses, Cotan has to.
void CheckProgram(const ConfCase& c, Differences& differences);

// A function that the reference refuses, or takes; `golden` says by which entry
// point, with which options, and what signature there is to be.
void CheckRefusal(const RefusalCase& c, const Json& golden, Differences& differences);

}  // namespace cotan::conformance

#endif  // COTAN_TESTING_CONFORMANCE_HARNESS_MODES_H_
