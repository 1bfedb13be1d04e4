#include "cli/doctor.h"

#include <jansson.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/subprocess.h"
#include "base/text.h"
#include "cli/locate.h"

/* Importing torch from a cold network file system has been seen to take half a minute. */
#define PYTHON_DEADLINE_NS  (60 * NS_PER_S)
#define VERSION_DEADLINE_NS (10 * NS_PER_S)
#define PYTHON_OUTPUT_MAX   65536

/* Prints one line of JSON as the last line of stdout. Written to run on any Python 3, so that an
 * old one is reported as old and not as broken. */
static const char python_probe[] =
    "import json, os, sys, warnings\n"
    "facts = {'executable': sys.executable, 'version': '%d.%d.%d' % sys.version_info[:3],\n"
    "         'recent': sys.version_info >= (3, 10), 'gpus': []}\n"
    "def line(error):\n"
    "    text = str(error).strip() or 'no reason given'\n"
    "    return type(error).__name__ + ': ' + text.splitlines()[0]\n"
    "try:\n"
    "    warnings.simplefilter('ignore')\n"
    "    import torch\n"
    "    facts['torch'] = str(torch.__version__)\n"
    "    facts['cuda'] = torch.version.cuda\n"
    "except BaseException as error:\n"
    "    facts['torch_error'] = line(error)\n"
    "else:\n"
    "    try:\n"
    "        if not torch.version.cuda:\n"
    "            facts['gpu_reason'] = 'this torch was built without CUDA'\n"
    "        else:\n"
    "            torch.cuda.init()\n"
    "            for index in range(torch.cuda.device_count()):\n"
    "                it = torch.cuda.get_device_properties(index)\n"
    "                facts['gpus'].append({'name': it.name, 'major': it.major,\n"
    "                                      'minor': it.minor, 'memory': it.total_memory})\n"
    "            if not facts['gpus']:\n"
    "                facts['gpu_reason'] = 'torch sees no device'\n"
    "    except BaseException as error:\n"
    "        facts['gpu_reason'] = line(error)\n"
    "os.write(1, ('\\n' + json.dumps(facts) + '\\n').encode('ascii'))\n"
    "os._exit(0)\n";

/* The tools that builds call: what is run, what is lacking without them, how they come. */
static const struct {
    const char *name;
    const char *commands[3];   /* the first that exists */
    const char *version_after; /* the version stands after this text; NULL: the first line */
    enum doctor_need need;
    const char *why;
    const char *mend;
} tools[DOCTOR_TOOL_COUNT] = {
    [DOCTOR_CXX] = {.name = "g++",
                    .commands = {"c++", "g++", "clang++"},
                    .need = DOCTOR_CPU,
                    .why = "candidates in C++ cannot be built",
                    .mend = "apt-get install g++"},
    [DOCTOR_NINJA] = {.name = "ninja",
                      .commands = {"ninja"},
                      .need = DOCTOR_CPU,
                      .why = "torch's load_inline builds with it",
                      .mend = "apt-get install ninja-build"},
    [DOCTOR_NVCC] = {.name = "nvcc",
                     .commands = {"nvcc", "/usr/local/cuda/bin/nvcc"},
                     .version_after = "release ",
                     .need = DOCTOR_ADVICE,
                     .why = "candidates in CUDA C++ cannot be built",
                     .mend = "apt-get install nvidia-cuda-toolkit"},
};

const char *doctor_tool_name(enum doctor_tool tool)
{
    return tools[tool].name;
}

static void copy_line(char *to, size_t size, const char *from)
{
    text_clean_line(to, size, from, strlen(from));
}

/* Adds what is missing; the last two of printf's make the mending command. */
static void __attribute__((format(printf, 5, 6)))
add_missing(struct doctor_facts *facts, enum doctor_need need, const char *what, const char *why,
            const char *mend, ...)
{
    struct doctor_missing *missing;
    va_list args;

    if (facts->missing_count == DOCTOR_MISSING_MAX)
        return;
    missing = &facts->missing[facts->missing_count++];
    missing->need = need;
    copy_line(missing->what, sizeof(missing->what), what);
    copy_line(missing->why, sizeof(missing->why), why);
    va_start(args, mend);
    vsnprintf(missing->mend, sizeof(missing->mend), mend, args);
    va_end(args);
}

/* The last line of what a helper printed that is not empty. */
static char *last_line(char *text)
{
    size_t length = strlen(text);
    char *newline;

    while (length && (text[length - 1] == '\n' || text[length - 1] == '\r'))
        text[--length] = '\0';
    newline = strrchr(text, '\n');
    return newline ? newline + 1 : text;
}

static void take_string(const json_t *object, const char *key, char *to, size_t size)
{
    const char *value = json_string_value(json_object_get(object, key));

    if (value)
        copy_line(to, size, value);
}

static void take_gpus(struct doctor_facts *facts, const json_t *answer)
{
    const json_t *list = json_object_get(answer, "gpus");
    const json_t *item;
    size_t index;

    json_array_foreach(list, index, item)
    {
        struct doctor_gpu *gpu = &facts->gpus[facts->gpu_count];

        if (facts->gpu_count == DOCTOR_GPUS_MAX)
            return;
        take_string(item, "name", gpu->name, sizeof(gpu->name));
        gpu->compute_major = (int)json_integer_value(json_object_get(item, "major"));
        gpu->compute_minor = (int)json_integer_value(json_object_get(item, "minor"));
        gpu->memory_bytes = (uint64_t)json_integer_value(json_object_get(item, "memory"));
        facts->gpu_count++;
    }
}

static void take_answer(struct doctor_facts *facts, const json_t *answer)
{
    take_string(answer, "executable", facts->python.path, sizeof(facts->python.path));
    take_string(answer, "version", facts->python.version, sizeof(facts->python.version));
    take_string(answer, "torch", facts->torch_version, sizeof(facts->torch_version));
    take_string(answer, "torch_error", facts->torch_error, sizeof(facts->torch_error));
    take_string(answer, "cuda", facts->torch_cuda, sizeof(facts->torch_cuda));
    take_string(answer, "gpu_reason", facts->gpu_reason, sizeof(facts->gpu_reason));
    take_gpus(facts, answer);

    if (!json_is_true(json_object_get(answer, "recent")))
        add_missing(facts, DOCTOR_CPU, "python >= 3.10", "the worker's module needs it",
                    "kbv --python PATH, of a newer one");
    if (!facts->torch_version[0])
        add_missing(facts, DOCTOR_CPU, "torch",
                    facts->torch_error[0] ? facts->torch_error : "it cannot be imported",
                    "%s -m pip install torch", facts->python.path);
}

/* Asks the interpreter. What it lacks, and that it does not answer, becomes a missing part. */
static int ask_python(struct doctor_facts *facts, struct error *err)
{
    const char *argv[] = {facts->python.path, "-I", "-c", python_probe, NULL};
    struct subprocess what = {
        .argv = argv, .deadline_ns = PYTHON_DEADLINE_NS, .output_max = PYTHON_OUTPUT_MAX};
    struct subprocess_result result = SUBPROCESS_RESULT_INIT;
    char why[DOCTOR_TEXT_MAX];
    json_t *answer = NULL;

    if (subprocess_run(&what, &result, err) < 0) {
        if (err->kind != ERROR_UNFIT)
            return -1;
        add_missing(facts, DOCTOR_CPU, "python", err->text, "kbv --python PATH");
        return 0;
    }
    if (subprocess_succeeded(&result))
        answer = json_loads(last_line(result.output), 0, NULL);
    if (json_is_object(answer)) {
        take_answer(facts, answer);
    } else {
        snprintf(why, sizeof(why), "%.120s %s: %.100s", facts->python.path,
                 result.timed_out ? "did not answer in 60 s" : "gave no answer",
                 last_line(result.errors));
        add_missing(facts, DOCTOR_CPU, "python", why, "kbv --python PATH, of one that works");
    }
    json_decref(answer);
    subprocess_result_release(&result);
    return 0;
}

/* First line of a small file, without its end; "" where it cannot be read. */
static void read_line(const char *path, char *to, size_t size)
{
    CLEANUP_FILE FILE *file = fopen(path, "re");
    char line[512];

    if (file && fgets(line, sizeof(line), file))
        copy_line(to, size, line);
}

static void find_cpu(struct doctor_facts *facts)
{
    CLEANUP_FILE FILE *file = fopen("/proc/cpuinfo", "re");
    cpu_set_t usable;
    char line[512];

    while (file && fgets(line, sizeof(line), file)) {
        char *colon = strchr(line, ':');

        if (colon && strncmp(line, "model name", 10) == 0) {
            copy_line(facts->cpu_name, sizeof(facts->cpu_name), colon + 1);
            break;
        }
    }
    CPU_ZERO(&usable);
    if (sched_getaffinity(0, sizeof(usable), &usable) == 0)
        facts->cpu_cores = CPU_COUNT(&usable);
    facts->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGE_SIZE);
}

static void find_kernel(struct doctor_facts *facts)
{
    struct utsname name;

    if (uname(&name) < 0)
        return;
    snprintf(facts->kernel, sizeof(facts->kernel), "%.64s %.64s %.64s", name.sysname, name.release,
             name.machine);
    if (!facts->cpu_name[0]) /* not every architecture names its model */
        copy_line(facts->cpu_name, sizeof(facts->cpu_name), name.machine);
}

static int ask_version(struct doctor_program *program, const char *after, struct error *err)
{
    const char *argv[] = {program->path, "--version", NULL};
    struct subprocess what = {.argv = argv, .deadline_ns = VERSION_DEADLINE_NS, .output_max = 4096};
    struct subprocess_result result = SUBPROCESS_RESULT_INIT;
    const char *from;
    char line[DOCTOR_TEXT_MAX];

    if (subprocess_run(&what, &result, err) < 0)
        return err->kind == ERROR_UNFIT ? 0 : -1;
    if (subprocess_succeeded(&result)) {
        from = after ? strstr(result.output, after) : result.output;
        if (from) {
            from += after ? strlen(after) : 0;
            snprintf(line, sizeof(line), "%.*s", (int)strcspn(from, after ? ",\n" : "\n"), from);
            copy_line(program->version, sizeof(program->version), line);
        }
    }
    subprocess_result_release(&result);
    return 0;
}

/* A virtual environment brings its own ninja, whose bin/ need not be in PATH. */
static bool find_beside(const char *program, const char *name, char to[DOCTOR_PATH_MAX])
{
    const char *slash = strrchr(program, '/');
    char path[DOCTOR_PATH_MAX];

    if (!slash || snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - program), program, name) >=
                      (int)sizeof(path))
        return false;
    return locate_program(path, to) == 0;
}

static bool find_path(const struct doctor_facts *facts, enum doctor_tool tool,
                      char to[DOCTOR_PATH_MAX])
{
    for (size_t i = 0; i < ARRAY_SIZE(tools[tool].commands); i++)
        if (tools[tool].commands[i] && locate_program(tools[tool].commands[i], to) == 0)
            return true;
    return tool == DOCTOR_NINJA && find_beside(facts->python.path, "ninja", to);
}

static int find_tool(struct doctor_facts *facts, enum doctor_tool tool, struct error *err)
{
    if (find_path(facts, tool, facts->tools[tool].path))
        return ask_version(&facts->tools[tool], tools[tool].version_after, err);
    if (tool != DOCTOR_NVCC || facts->gpu_count)
        add_missing(facts, tools[tool].need, tools[tool].name, tools[tool].why, "%s",
                    tools[tool].mend);
    return 0;
}

static void find_gpu(struct doctor_facts *facts)
{
    read_line("/sys/module/nvidia/version", facts->gpu_driver, sizeof(facts->gpu_driver));
    if (facts->gpu_count)
        return;
    if (!facts->torch_version[0])
        copy_line(facts->gpu_reason, sizeof(facts->gpu_reason), "there is no torch to ask");
    if (!facts->gpu_driver[0])
        add_missing(facts, DOCTOR_CUDA, "gpu", "no NVIDIA driver is loaded", "%s", "");
    else if (facts->torch_version[0] && !facts->torch_cuda[0])
        add_missing(facts, DOCTOR_CUDA, "torch with CUDA", facts->gpu_reason,
                    "%s -m pip install --force-reinstall torch", facts->python.path);
    else
        add_missing(facts, DOCTOR_CUDA, "gpu", facts->gpu_reason, "%s", "nvidia-smi");
}

/* Without a layer an evaluation is less safe, but can be made: --sandbox=strict decides. */
static void find_sandbox(struct doctor_facts *facts)
{
    struct error err = ERROR_INIT;

    if (sandbox_probe(&facts->sandbox_layers, facts->sandbox_reason, &err) < 0) {
        copy_line(facts->sandbox_error, sizeof(facts->sandbox_error), err.text);
        add_missing(facts, DOCTOR_CPU, "sandbox", err.text, "%s", "");
        return;
    }
    for (unsigned bit = 0; bit < SANDBOX_LAYER_COUNT; bit++) {
        enum sandbox_layer layer = (enum sandbox_layer)(1u << bit);
        char what[64];

        if (facts->sandbox_layers & layer)
            continue;
        snprintf(what, sizeof(what), "sandbox layer %s", sandbox_layer_name(layer));
        add_missing(facts, DOCTOR_ADVICE, what, facts->sandbox_reason[bit], "%s", "");
    }
}

static void find_library(struct doctor_facts *facts)
{
    char path[LOCATE_PATH_MAX];
    struct error err = ERROR_INIT;

    if (locate_library(path, &err) < 0)
        add_missing(facts, DOCTOR_CPU, "worker module", err.text, "make build");
    else
        text_clean(facts->library, sizeof(facts->library), path, strlen(path));
}

int doctor_collect(const char *asked_python, struct doctor_facts *ret_facts, struct error *err)
{
    CLEANUP_FREE struct doctor_facts *facts = calloc(1, sizeof(*facts));
    char path[LOCATE_PATH_MAX];

    if (!facts)
        return error_set(err, ERROR_INTERNAL, "out of memory");
    if (locate_python(asked_python, path, err) < 0) {
        if (err->kind != ERROR_UNFIT)
            return -1;
        add_missing(facts, DOCTOR_CPU, "python", err->text, "apt-get install python3");
    } else {
        snprintf(facts->python.path, sizeof(facts->python.path), "%s", path);
        if (ask_python(facts, err) < 0)
            return -1;
    }
    find_cpu(facts);
    find_kernel(facts);
    for (enum doctor_tool tool = 0; tool < DOCTOR_TOOL_COUNT; tool++)
        if (find_tool(facts, tool, err) < 0)
            return -1;
    find_gpu(facts);
    find_sandbox(facts);
    find_library(facts);
    *ret_facts = *facts;
    return 0;
}

bool doctor_ready(const struct doctor_facts *facts, bool gpu, int index)
{
    for (size_t i = 0; i < facts->missing_count; i++) {
        if (facts->missing[i].need == DOCTOR_CPU)
            return false;
        if (gpu && facts->missing[i].need == DOCTOR_CUDA)
            return false;
    }
    return !gpu || (size_t)index < facts->gpu_count;
}
