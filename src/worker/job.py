"""One job: a process forked from a warm parent, from its first instruction to its last."""

import os
import sys

import _kbv

SANDBOX_OFF = 2  # enum sandbox_mode


class Request:
    """The values of MESSAGE_SPAWN."""

    def __init__(self, role, flags, sandbox_mode, device, scratch, builds, memory_bytes, processes,
                 channel, page, report, output):
        self.role, self.flags, self.device = role, flags, device
        self.scratch, self.builds = scratch, builds
        self.memory_bytes, self.processes = memory_bytes, processes
        self.channel, self.page, self.report, self.output = channel, page, report, output
        # The reference process is trusted: it has a supervisor, but keeps its rights.
        self.sandbox_mode = SANDBOX_OFF if role == _kbv.ROLE_REFERENCE else sandbox_mode
        self.readable = []

    def policy(self):
        uses_device = self.device != "cpu" and self.role != _kbv.ROLE_BUILDER
        return (self.sandbox_mode, self.scratch, self.readable, uses_device, self.memory_bytes,
                self.processes)

    def run(self):
        status = 70
        try:
            self._prepare()
            status = self._serve()
        except _kbv.Error as error:
            self._fail(_kbv.FAIL_UNFIT if error.args[0] == _kbv.ERROR_UNFIT else _kbv.FAIL_INTERNAL,
                       error.args[1])
        except BaseException as error:
            import traceback
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{os.path.basename(frame.filename)}:{frame.lineno}"
            self._fail(_kbv.FAIL_INTERNAL, f"{where}: {type(error).__name__}: {error}")
        finally:
            os._exit(status)

    def _fail(self, kind, text):
        try:
            _kbv.send(self.channel, _kbv.MESSAGE_FAIL, (kind, 0, text.splitlines()[0] if text else ""))
        except _kbv.Error:
            pass  # the judge is gone: nobody is left to tell

    def _prepare(self):
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(self.output, 1)
        os.dup2(self.output, 2)
        os.close(self.output)
        # A process that is killed loses what it has not written.
        sys.stdout.reconfigure(line_buffering=True)
        os.chdir(self.scratch)
        scratch = self.scratch
        keep = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH",
                "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "TORCH_CUDA_ARCH_LIST",
                "CC", "CXX", "CUDA_MODULE_LOADING", "KBV_KERNEL_CACHE", "KBV_NVRTC_DIR")
        kept = {name: os.environ[name] for name in keep if name in os.environ}
        os.environ.clear()
        os.environ.update(kept)
        os.environ.update(
            HOME=scratch, TMPDIR=scratch, XDG_CACHE_HOME=f"{scratch}/cache",
            TRITON_CACHE_DIR=f"{scratch}/triton", TRITON_HOME=scratch,
            TORCHINDUCTOR_CACHE_DIR=f"{scratch}/inductor",
            TORCH_EXTENSIONS_DIR=f"{scratch}/extensions", CUDA_CACHE_PATH=f"{scratch}/cuda",
            MPLCONFIGDIR=scratch, PYTHONDONTWRITEBYTECODE="1")
        # A compiler of the environment's own (ninja from the same venv) must be found.
        bin_directory = os.path.dirname(sys.executable)
        path = os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
        if bin_directory not in path.split(":"):
            os.environ["PATH"] = f"{bin_directory}:{path}"
        import tempfile
        tempfile.tempdir = None
        sys.argv = ["kbv-worker"]

    def _serve(self):
        if self.role == _kbv.ROLE_BUILDER:
            import builder
            layers = _kbv.lock(self.policy())
            _kbv.send(self.channel, _kbv.MESSAGE_READY, (layers, "", "", 0, 0, 0.0))
            return builder.serve(self)

        import share
        _kbv.page_map(self.page)
        if self.role == _kbv.ROLE_REFERENCE:
            import reference
            facts = self._open_device(share)
            self._ready(0, facts)
            return reference.serve(self, facts)

        import candidate
        # Before the driver starts its threads: Landlock binds those that come later only.
        layers = _kbv.lock(self.policy())
        facts = self._open_device(share)
        flags = 0
        if self.flags & _kbv.JOB_GUARD:
            flags |= _kbv.GUARD_ZONES | _kbv.GUARD_POISON
        if self.flags & _kbv.JOB_COUNT_MEMORY:
            flags |= _kbv.GUARD_COUNT
        if flags:
            _kbv.guard_enable(flags)
        _kbv.watch_faults()
        self._ready(layers, facts)
        return candidate.serve(self)

    def _open_device(self, share):
        import torch
        if self.device != "cpu":
            if not torch.version.cuda:
                raise _kbv.Error(_kbv.ERROR_UNFIT, "this torch is built without CUDA; install a CUDA "
                                 "build of torch, or use --device cpu")
            if self.flags & (_kbv.JOB_GUARD | _kbv.JOB_COUNT_MEMORY):
                # Must stand before the first allocation of this process.
                module = _kbv.__file__
                torch.cuda.memory.change_current_allocator(
                    torch.cuda.memory.CUDAPluggableAllocator(module, "kbv_cuda_allocate",
                                                             "kbv_cuda_release"))
            try:
                return share.open_device(self.device)
            except (RuntimeError, AssertionError) as error:
                text = share.last_line(error)
                raise _kbv.Error(_kbv.ERROR_UNFIT, f"no device {self.device}: {text}") from None
        return share.open_device(self.device)

    def _ready(self, layers, facts):
        _kbv.send(self.channel, _kbv.MESSAGE_READY,
                  (layers, facts["name"], facts["driver"], facts["memory_bytes"], facts["l2_bytes"],
                   facts["bandwidth"]))
