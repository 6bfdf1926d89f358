# SPDX-License-Identifier: Apache-2.0
"""Writes a golden file for the runner from a conformance corpus.

    python3 reduce_corpus.py CORPUS.json > aotautograd_goldens.json
    python3 reduce_corpus.py CORPUS.json --binding_only > goldens.json

Keeps the facts and drops programs: source texts, traced graphs, inputs. The runner can also read the corpus
itself. With --binding_only, metadata are kept only where the runner compares them: where the
reference's results are those of eager.
"""

import json
import sys

METADATA = ("metadata_user", "metadata_after_wrappers", "metadata_final_diff", "dedupe", "synthetic_base",
            "needs_autograd", "num_fw_outs_saved_for_bw", "num_symints_saved_for_bw", "indices_of_inps_to_detach",
            "version_bumps", "error")
# Fields of the metadata without a counterpart in Cotan, or derived from other fields.
DROPPED = {"num_graphsafe_rng_states", "dynamic_saved_tensors_idxs"}


def kept_field(key, value):
    if value is None or key not in ("metadata_user", "metadata_after_wrappers"):
        return value
    return {name: field for name, field in value.items() if name not in DROPPED}


def analysis(aot, is_binding):
    names = METADATA if is_binding else ("version_bumps",)
    kept = {key: kept_field(key, aot[key]) for key in names if key in aot}
    if "fw_graph" in aot:
        kept["fw_graph"] = {"num_outputs": aot["fw_graph"]["num_outputs"]}
    return kept


def case(facts, binding_only):
    names = ["group", "flags", "eager", "eager_error", "num_roots", "status"] + ([] if binding_only else ["why"])
    kept = {key: facts[key] for key in names if key in facts}
    status = facts["status"]
    kept["aot"] = {mode: analysis(aot, not binding_only or status[mode] == "ok") for mode, aot in facts["aot"].items()}
    return kept


def error(facts):
    return {key: facts[key] for key in ("name", "api", "options", "error", "eager_error", "signature") if key in facts}


def line(value):
    return json.dumps(value, separators=(",", ":"))


def main():
    with open(sys.argv[1]) as file:
        corpus = json.load(file)
    binding_only = "--binding_only" in sys.argv[2:]
    cases = [f"{line(name)}:{line(case(facts, binding_only))}" for name, facts in corpus["cases"].items()]
    errors = [line(error(facts)) for facts in corpus["errors"]]
    print('{"format":1,"cases":{\n' + ",\n".join(cases) + '\n},"errors":[\n' + ",\n".join(errors) + "\n]}")


if __name__ == "__main__":
    main()
