"""Writes metadata_goldens.json from a conformance corpus with whole goldens.

    python3 extract_metadata.py CORPUS.json > metadata_goldens.json

Keeps what PyTorch's analysis says (ViewAndMutationMeta and, after partitioning, what is saved for
the backward), each distinct set of facts once, under the name of its first case.
"""

import json
import sys

# Descriptions that have no counterpart, or repeat others.
DROPPED = {"static_input_indices", "num_graphsafe_rng_states", "dynamic_saved_tensors_idxs"}


def kept(metadata):
    return {key: value for key, value in metadata.items() if key not in DROPPED}


def records(corpus):
    for name, case in corpus["cases"].items():
        for mode, facts in case["aot"].items():
            user = facts.get("metadata_user")
            if not user:
                continue
            inner = facts.get("metadata_after_wrappers")
            if inner:
                yield f"{name}/{mode}/user", {"metadata": kept(user)}
            record = {"metadata": kept(inner or user)}
            final = facts.get("metadata_final_diff")
            if final and "num_fw_outs_saved_for_bw" in facts:
                record["saved"] = dict(final, num_forward_outputs=len(facts["fw_graph"]["outputs"]),
                                       indices_of_inps_to_detach=facts["indices_of_inps_to_detach"])
            yield f"{name}/{mode}", record


def main():
    with open(sys.argv[1]) as file:
        corpus = json.load(file)
    seen = set()
    lines = []
    for name, record in records(corpus):
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        if text not in seen:
            seen.add(text)
            lines.append(f'{json.dumps(name)}:{text}')
    print("{\n" + ",\n".join(lines) + "\n}")


if __name__ == "__main__":
    main()
