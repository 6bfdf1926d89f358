#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Collects the results of run_on_gpu.sh and writes the report.

usage: gpu_report.py machine OUT.json VERSION_FILE LIBRARY_PATH DEVICE
       gpu_report.py note RESULTS.jsonl NAME RESULT SECONDS OUTPUT_FILE
       gpu_report.py losses GPU.json CPU.json TOLERANCE
       gpu_report.py report FOLDER
"""
import datetime
import glob
import json
import os
import subprocess
import sys

LAST_LINES = 12
FIELDS = ["median_us", "min_us", "host_us", "first_step_ms", "gpu_bytes"]


def output_of(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def machine(out, version_file, library_path, device):
    query = "name,driver_version,memory.total,compute_cap,clocks.max.sm,power.limit"
    gpu = output_of(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]).splitlines()
    values = [value.strip() for value in gpu[0].split(",")] if gpu else []
    libraries = [
        os.path.realpath(path)
        for folder in library_path.split(":")
        for path in sorted(glob.glob(os.path.join(folder, "lib*.so.*")))
        if os.path.basename(path).startswith(("libcublasLt.so", "libcudnn.so", "libnvrtc.so"))
    ]
    with open(version_file) as file:
        version = file.read().strip()
    facts = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "cotan": version,
        "device": device,
        "gpu": dict(zip(query.split(","), values)),
        "libraries": libraries,
        "kernel": output_of(["uname", "-sr"]),
        "cpus": os.cpu_count(),
    }
    with open(out, "w") as file:
        json.dump(facts, file, indent=1)
    print(facts["date"], ", ".join(values) or "nvidia-smi finds no GPU")


def note(results, name, result, seconds, output_file):
    with open(output_file, errors="replace") as file:
        lines = file.read().splitlines()
    # A table, or the sum of what a check did.
    record = {"check": name, "result": result, "seconds": int(seconds), "last_lines": lines[-LAST_LINES:]}
    if name.startswith("bits of"):
        record["table"] = [line for line in lines if line.startswith("|") or line.startswith("WRONG")]
    with open(results, "a") as file:
        file.write(json.dumps(record) + "\n")


def losses(gpu_file, cpu_file, tolerance):
    runs = []
    for path in (gpu_file, cpu_file):
        with open(path) as file:
            runs.append(json.loads(file.readline())["losses"])
    if not runs[0] or len(runs[0]) != len(runs[1]) or None in runs[0] + runs[1]:
        sys.exit(f"losses are missing or not numbers: {runs}")
    worst = max(abs(a - b) / max(abs(b), 1e-6) for a, b in zip(*runs))
    print(f"{len(runs[0])} losses, {runs[0][0]:.6g} to {runs[0][-1]:.6g}; largest relative difference {worst:.2e}")
    if worst > float(tolerance):
        sys.exit(f"the difference exceeds {tolerance}: {runs}")


def read_lines(path):
    if not os.path.exists(path):
        return []
    records = []
    with open(path) as file:
        for line in file:
            try:
                records.append(json.loads(line))
            except ValueError:
                records.append({"error": f"not JSON: {line[:200]}"})
    return records


def best_peer(group):
    """Returns the measurement of PyTorch with the smallest median, or None."""
    peers = [r for r in group if r.get("side", "").startswith("torch") and "median_us" in r]
    return min(peers, key=lambda r: r["median_us"], default=None)


def number(value):
    return "" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)


def bench_tables(records):
    """Returns markdown: Cotan against the best of PyTorch by precision, model and inputs, and all measurements."""
    groups = {}
    for record in records:
        if "median_us" in record:
            groups.setdefault((record.get("precision"), record["model"], record["inputs"]), []).append(record)
    lines = ["| precision | model | inputs | side | " + " | ".join(FIELDS) + " | x Cotan |"]
    lines.append("|" + "---|" * (len(FIELDS) + 5))
    ratios = ["| precision | model | inputs | Cotan us | best of PyTorch us | side | Cotan is x times as fast |"]
    ratios.append("|---|---|---|---|---|---|---|")
    for key, group in groups.items():
        cotan = [r["median_us"] for r in group if r["side"] == "cotan"]
        # Cotan is measured before and after the others; the smaller median is noted, all are in the first table.
        base = min(cotan, default=None)
        for record in group:
            values = [number(record.get(field)) for field in FIELDS]
            factor = f"{record['median_us'] / base:.2f}" if base else ""
            lines.append("| " + " | ".join([*map(str, key), record["side"], *values, factor]) + " |")
        peer = best_peer(group)
        if base and peer:
            row = [*map(str, key), f"{base:.1f}", f"{peer['median_us']:.1f}", peer["side"]]
            ratios.append("| " + " | ".join(row) + f" | {peer['median_us'] / base:.2f} |")
    errors = [f"- {r.get('side')} {r.get('model')} {r.get('precision')}: {r['error']}" for r in records if "error" in r]
    return ratios + [""] + lines + ([""] + errors if errors else [])


def report(folder):
    facts_path = os.path.join(folder, "machine.json")
    with open(facts_path) as file:
        facts = json.load(file)
    checks = read_lines(os.path.join(folder, "results.jsonl"))
    bench = read_lines(os.path.join(folder, "bench.jsonl"))
    gpu = ", ".join(f"{key} {value}" for key, value in facts["gpu"].items()) or "no GPU"
    lines = ["# Cotan on a GPU", "", f"- date: {facts['date']}", f"- GPU: {gpu}"]
    lines += [f"- Cotan: {facts['cotan']} on {facts['device']}"]
    lines += [f"- libraries: {', '.join(facts['libraries']) or 'none found'}", f"- system: {facts['kernel']}"]
    passed = [c for c in checks if c["result"] == "pass"]
    failed = [c for c in checks if c["result"] != "pass" and not c["result"].startswith("not run")]
    counts = f"{len(passed)} passed, {len(failed)} failed, {len(checks) - len(passed) - len(failed)} not run"
    lines += ["", f"## Checks: {counts}", ""]
    lines += ["| check | result | s | last line |", "|---|---|---|---|"]
    for check in checks:
        last = check.get("last_lines") or [""]
        lines.append(f"| {check['check']} | {check['result']} | {check.get('seconds', '')} | {last[-1][:150]} |")
    for check in failed:
        lines += ["", f"### {check['check']}: {check['result']}", "", "```", *check.get("last_lines", []), "```"]
    for check in checks:
        if check.get("table"):
            lines += ["", f"## {check['check']}", "", *check["table"]]
    if bench:
        lines += ["", "## Steps", "", "Medians and minima over blocks of steps, each of which ends with a read of the"]
        lines += ["loss. `gpu_bytes`: growth of"]
        lines += ["the GPU's memory in use (Cotan), memory reserved by the allocator (PyTorch).", ""]
        lines += bench_tables(bench)
    with open(os.path.join(folder, "report.md"), "w") as file:
        file.write("\n".join(lines) + "\n")
    with open(os.path.join(folder, "report.json"), "w") as file:
        json.dump({"machine": facts, "checks": checks, "bench": bench}, file, indent=1)
    os.remove(facts_path)
    print(f"{folder}/report.md: checks: {counts}; {len(bench)} lines of measurements")


def main():
    commands = {"machine": (machine, 4), "note": (note, 5), "losses": (losses, 3), "report": (report, 1)}
    if len(sys.argv) < 2 or sys.argv[1] not in commands or len(sys.argv) - 2 != commands[sys.argv[1]][1]:
        sys.exit(__doc__)
    commands[sys.argv[1]][0](*sys.argv[2:])


if __name__ == "__main__":
    main()
