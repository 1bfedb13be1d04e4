"""A warm parent: imports torch once, then forks a job for each request of the judge.

usage: worker.py CHANNEL SCRATCH

CHANNEL is the descriptor of a socket to the judge, SCRATCH a directory of this parent's own. When
the judge closes the socket, or dies, every job is ended and SCRATCH removed: so that even a judge
that is killed leaves nothing behind. The parent never touches a device and never runs candidate
code.
"""

import os
import platform
import shutil
import signal
import sys
import time


def readable_paths(builds):
    """What a sandboxed job may read beside the system's own directories."""
    paths = {sys.prefix, sys.base_prefix, os.path.dirname(os.path.abspath(__file__)), builds}
    paths.update(os.path.abspath(path) for path in sys.path if path)
    for name in ("CUDA_HOME", "CUDA_PATH", "KBV_KERNEL_CACHE"):
        if os.environ.get(name):
            paths.add(os.environ[name])
    paths.update(compiler_paths())
    # pyenv and venv: the interpreter and its library may lie elsewhere than the prefix says.
    paths.add(os.path.dirname(os.path.realpath(sys.executable)))
    paths.update(os.path.realpath(path) for path in list(paths))
    existing = sorted(path for path in paths if os.path.exists(path) and path != "/")
    # A directory covers what lies below it.
    kept = []
    for path in existing:
        if not any(path == other or path.startswith(other + "/") for other in kept):
            kept.append(path)
    return kept[:60]


def import_builders(torch):
    """torch.utils.cpp_extension asks at import whether there is a device, which would open the
    driver here; no job forked after that could use it. Candidates ask for the module, so it is
    better imported once here than in each of them."""
    is_available = torch.cuda.is_available
    torch.cuda.is_available = lambda: True  # only decides about a warning
    try:
        import torch.utils.cpp_extension
    finally:
        torch.cuda.is_available = is_available


def compiler_paths():
    """Where the compilers lie that builds and JIT compilers call, if not in the system's own
    directories: the installation around each, and what they load."""
    home = os.path.realpath(os.path.expanduser("~"))
    names = ["cc", "c++", "gcc", "g++", "clang", "clang++", "ld", "as", "nvcc", "ptxas", "ninja"]
    names += [os.environ[name].split()[0] for name in ("CC", "CXX") if os.environ.get(name, "").split()]
    paths = {path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if os.path.isabs(path)}
    for name in names:
        found = shutil.which(name)
        if not found:
            continue
        for path in (os.path.abspath(found), os.path.realpath(found)):
            directory = os.path.dirname(path)
            prefix = os.path.dirname(directory)
            # Of a program in the user's home, not the home.
            paths.add(directory if (home + "/").startswith(prefix.rstrip("/") + "/") else prefix)
    return {path for path in paths if path not in ("/", "/usr", "/usr/local", "")}


def end_jobs(supervisors, scratch):
    for pid in supervisors:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            pass
    deadline = time.monotonic() + 5
    while supervisors and time.monotonic() < deadline:
        reap(supervisors)
        time.sleep(0.01)
    for pid in supervisors:
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(scratch, ignore_errors=True)
    try:
        os.rmdir(os.path.dirname(scratch))
    except OSError:
        pass  # the other parent is not done yet, or the judge's own files are there


def reap(supervisors):
    while supervisors:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            supervisors.clear()
            return
        if pid == 0:
            return
        supervisors.discard(pid)


def main():
    channel, scratch = int(sys.argv[1]), sys.argv[2]
    # An interrupt is the judge's to handle; it closes the socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.pop("LD_PRELOAD", None)  # loaded by now; compilers that jobs start need none

    import _kbv
    try:
        import torch
    except Exception as error:
        _kbv.send(channel, _kbv.MESSAGE_FAIL, (_kbv.FAIL_UNFIT, 0, f"{type(error).__name__}: {error}"))
        return 1
    import_builders(torch)
    import torch.utils.dlpack

    import builder, candidate, job, reference  # noqa: F401: once here, not in every job

    _kbv.send(channel, _kbv.MESSAGE_HELLO,
              (torch.__version__, platform.python_version(), torch.version.cuda or ""))
    supervisors = set()
    try:
        while (message := _kbv.receive(channel)) is not None:
            kind, values, fds = message
            reap(supervisors)
            if kind != _kbv.MESSAGE_SPAWN:
                raise RuntimeError(f"unexpected message {kind}")
            request = job.Request(*values, *fds)
            request.readable = readable_paths(request.builds)
            os.makedirs(request.scratch, mode=0o700, exist_ok=True)
            try:
                pid = _kbv.spawn(request.policy(), request.report,
                                 [request.channel, request.page, request.output])
            except _kbv.Error as error:
                _kbv.send(channel, _kbv.MESSAGE_FAIL, (_kbv.FAIL_UNFIT, 0, error.args[1]))
                continue
            finally_close = fds
            if pid == 0:
                request.run()  # does not return
            supervisors.add(pid)
            for fd in finally_close:
                os.close(fd)
            _kbv.send(channel, _kbv.MESSAGE_OK, (pid,))
    finally:
        end_jobs(supervisors, scratch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
