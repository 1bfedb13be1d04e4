"""Manifests for `kbv demo --manifest` from KernelBench's layout.

    bench/kernelbench_manifest.py identity PROBLEMS OUT [--level N]... [--problem N]...
    bench/kernelbench_manifest.py runs PROBLEMS RUN... OUT [--level N]... [--problem N]...

PROBLEMS holds level1/19_ReLU.py and so on, a RUN level_L_problem_P_sample_S_kernel.py. `identity`
judges every reference as its own candidate, which must be verified and on a par; it writes copies
with the class renamed into OUT.d. `runs` judges generated kernels; every verdict is expected there
but an error of kbv's.
"""

import argparse
import os
import pathlib
import re
import sys

HEADING = "id\tproblem\tcandidate\tverdict\tlabel\tdevices\tquick\tnote"
ANY_VERDICT = ("problem_unfit|build_failed|load_failed|crashed|timed_out|out_of_memory|tampered|wrong|"
               "impossible_speed|no_device_work|verified")


def problems_below(root, levels, numbers):
    """{(level, number): path}"""
    found = {}
    for path in root.glob("level*/*.py"):
        level = re.fullmatch(r"level(\d+)", path.parent.name)
        number = re.match(r"(\d+)_", path.name)
        if level and number:
            key = int(level[1]), int(number[1])
            if (not levels or key[0] in levels) and (not numbers or key[1] in numbers):
                found[key] = path
    return found


def renamed(source):
    source = re.sub(r"\bclass Model\(", "class ModelNew(", source)
    return re.sub(r"\bsuper\(Model,", "super(ModelNew,", source)


def identity_rows(problems, out):
    copies = out.with_name(out.name + ".d")
    copies.mkdir(exist_ok=True)
    for (level, number), path in sorted(problems.items()):
        copy = copies / f"level_{level}_problem_{number}.py"
        copy.write_text(renamed(path.read_text()))
        yield f"identity/{level}/{number}", path, copy, "verified"


def run_rows(problems, runs):
    for run in runs:
        for path in sorted(run.glob("*_kernel.py")):
            named = re.match(r"level_(\d+)_problem_(\d+)_sample_(\d+)_kernel", path.name)
            key = (int(named[1]), int(named[2])) if named else None
            if key in problems:
                yield f"{run.name}/{key[0]}/{key[1]}/{named[3]}", problems[key], path, ANY_VERDICT


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kind", choices=["identity", "runs"])
    parser.add_argument("paths", nargs="+", type=pathlib.Path, metavar="PATH")
    parser.add_argument("--level", type=int, action="append", default=[])
    parser.add_argument("--problem", type=int, action="append", default=[])
    options = parser.parse_args()
    root, *runs, out = options.paths
    problems = problems_below(root, options.level, options.problem)
    if not problems:
        sys.exit(f"{root}: no level*/N_name.py there")
    rows = list(identity_rows(problems, out) if options.kind == "identity"
                else run_rows(problems, runs))
    base = out.resolve().parent
    lines = [HEADING] + ["\t".join([name, os.path.relpath(problem.resolve(), base),
                                    os.path.relpath(candidate.resolve(), base), verdict, "-",
                                    "cpu,cuda", "yes", "-"])
                         for name, problem, candidate, verdict in rows]
    out.write_text("\n".join(lines) + "\n")
    print(f"{out}: {len(rows)} rows")


if __name__ == "__main__":
    main()
