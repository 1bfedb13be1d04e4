"""What KernelBench's own correctness check says about pairs that kbv judged, to set beside it.

    bench/kernelbench_check.py MANIFEST [--only TEXT]... [--jobs N] [--timeout S] [--json FILE]

For each row: both models are built under seed 42, then five trials draw inputs from generators
seeded by 42 and compare with allclose, at 1e-2 (as first published) and at 1e-4 (as used since for
fp32). The candidate runs in a process of its own but in no sandbox: only for kernels that you would
run anyway. Prints one line for each; with --json also one JSON line for each.
"""

import argparse
import concurrent.futures
import importlib.util
import json
import pathlib
import subprocess
import sys

TRIALS = 5
SEED = 42


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def check(problem_path, candidate_path):
    import torch

    def seeded(seed):
        torch.manual_seed(seed)
        torch.cuda.manual_seed_all(seed)

    def on_device(values):
        return [value.cuda() if isinstance(value, torch.Tensor) else value for value in values]

    problem, candidate = load(problem_path, "problem"), load(candidate_path, "candidate")
    seeded(SEED)
    init = on_device(problem.get_init_inputs())
    seeded(SEED)
    reference = problem.Model(*init).cuda()
    seeded(SEED)
    model = candidate.ModelNew(*init).cuda()
    seeded(SEED)
    seeds = [torch.randint(0, 2**32 - 1, (1,)).item() for _ in range(TRIALS)]
    result = {"loose": True, "tight": True, "difference": 0.0, "scale": 0.0}
    with torch.no_grad():
        for seed in seeds:
            seeded(seed)
            inputs = on_device(problem.get_inputs())
            seeded(seed)
            expected = reference(*inputs)
            seeded(seed)
            actual = model(*inputs)
            torch.cuda.synchronize()
            if expected.shape != actual.shape:
                return {"loose": False, "tight": False,
                        "error": f"shape {tuple(actual.shape)}, not {tuple(expected.shape)}"}
            result["loose"] &= torch.allclose(expected, actual, atol=1e-2, rtol=1e-2)
            result["tight"] &= torch.allclose(expected, actual, atol=1e-4, rtol=1e-4)
            result["difference"] = max(result["difference"],
                                       (expected - actual).abs().max().item())
            result["scale"] = max(result["scale"], expected.abs().max().item())
    return result


def check_row(row, timeout_s):
    command = [sys.executable, __file__, "--pair", *map(str, row[1:])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s,
                              stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        return {"loose": False, "tight": False, "error": f"no end after {timeout_s} s"}
    lines = done.stdout.splitlines()
    if done.returncode == 0 and lines:
        return json.loads(lines[-1])
    said = [line for line in done.stderr.splitlines() if line.strip()]
    return {"loose": False, "tight": False,
            "error": said[-1][:200] if said else f"exit status {done.returncode}"}


def rows_of(manifest, only):
    for line in manifest.read_text().splitlines()[1:]:
        name, problem, candidate = line.split("\t")[:3]
        if not only or any(text in name for text in only):
            yield name, manifest.parent / problem, manifest.parent / candidate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("manifest", nargs="?", type=pathlib.Path)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=4)
    parser.add_argument("--timeout", type=float, default=300)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--pair", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.pair:
        print(json.dumps(check(*options.pair)))
        return
    if not options.manifest:
        parser.error("name a manifest")
    rows = list(rows_of(options.manifest, options.only))
    out = open(options.json, "w", encoding="utf-8") if options.json else None
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda row: check_row(row, options.timeout), rows)
        for row, result in zip(rows, results):
            verdict = "right at 1e-4" if result["tight"] else "right at 1e-2" if result["loose"] else "wrong"
            detail = result.get("error") or f"{result['difference']:.2e} of {result['scale']:.2e}"
            print(f"{row[0]:<40} {verdict:<14} {detail}", flush=True)
            if out:
                out.write(json.dumps({"id": row[0], **result}) + "\n")
                out.flush()
    if out:
        out.close()


if __name__ == "__main__":
    main()
