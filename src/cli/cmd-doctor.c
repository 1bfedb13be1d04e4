/* kbv doctor: what of an evaluation's needs is here, and what would mend the rest. */
#include <errno.h>
#include <getopt.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/doctor.h"

static const char usage[] =
    "usage: kbv doctor [--device cpu|cuda|cuda:N] [--python PATH] [--json FILE|-]\n"
    "\n"
    "Says what an evaluation would find on this machine: Python, torch, devices, compilers,\n"
    "sandbox layers; and for each part that is missing, what would mend it.\n"
    "\n"
    "  --device DEVICE   what must be usable: cpu (default), cuda or cuda:N\n"
    "  --python PATH     the interpreter that has torch\n"
    "  --json FILE|-     write a JSON document (kbv.doctor/1) instead; - is standard output\n"
    "  --help            this text\n"
    "\n"
    "Exit status: 0 everything needed is there, 2 usage, 3 something needed is missing.\n";

struct request {
    const char *python; /* NULL: find one */
    const char *json;   /* NULL: text for people */
    const char *device;
    bool gpu;
    int gpu_index;
};

static const char *const need_names[] = {
    [DOCTOR_ADVICE] = "advice",
    [DOCTOR_CPU] = "required",
    [DOCTOR_CUDA] = "cuda",
};

static int complain(const char *text, const char *value)
{
    fprintf(stderr, "kbv doctor: %s: %s\nTry 'kbv doctor --help'.\n", text, value);
    return EXIT_BAD_INPUT;
}

/* "cpu", "cuda", "cuda:N". */
static bool parse_device(const char *text, struct request *request)
{
    char *end;
    long index;

    request->device = text;
    request->gpu = false;
    request->gpu_index = 0;
    if (strcmp(text, "cpu") == 0)
        return true;
    if (strncmp(text, "cuda", 4) != 0)
        return false;
    request->gpu = true;
    if (text[4] == '\0')
        return true;
    if (text[4] != ':' || text[5] < '0' || text[5] > '9')
        return false;
    errno = 0;
    index = strtol(text + 5, &end, 10);
    if (errno || *end || index > 1023)
        return false;
    request->gpu_index = (int)index;
    return true;
}

static void print_row(const char *name, const char *value)
{
    printf("  %-9s %s\n", name, value);
}

static void print_python(const struct doctor_facts *facts)
{
    char line[DOCTOR_PATH_MAX + DOCTOR_TEXT_MAX + 16];

    if (facts->python.version[0])
        snprintf(line, sizeof(line), "%s, %s", facts->python.version, facts->python.path);
    else
        snprintf(line, sizeof(line), "%s", facts->python.path[0] ? facts->python.path : "none");
    print_row("python", line);
    if (facts->torch_version[0])
        snprintf(line, sizeof(line), "%s, %s%s", facts->torch_version,
                 facts->torch_cuda[0] ? "CUDA " : "without CUDA", facts->torch_cuda);
    else
        snprintf(line, sizeof(line), "none");
    print_row("torch", line);
}

static void print_devices(const struct doctor_facts *facts)
{
    char line[2 * DOCTOR_TEXT_MAX + 128];

    snprintf(line, sizeof(line), "%s, %d core%s, %.0f GiB", facts->cpu_name, facts->cpu_cores,
             facts->cpu_cores == 1 ? "" : "s", (double)facts->memory_bytes / (1 << 30));
    print_row("cpu", line);
    for (size_t i = 0; i < facts->gpu_count; i++) {
        const struct doctor_gpu *gpu = &facts->gpus[i];
        char name[32];

        snprintf(name, sizeof(name), "cuda:%zu", i);
        snprintf(line, sizeof(line), "%s, compute %d.%d, %.0f GiB, driver %s", gpu->name,
                 gpu->compute_major, gpu->compute_minor, (double)gpu->memory_bytes / (1 << 30),
                 facts->gpu_driver[0] ? facts->gpu_driver : "unknown");
        print_row(name, line);
    }
    if (!facts->gpu_count) {
        snprintf(line, sizeof(line), "none: %s", facts->gpu_reason);
        print_row("cuda", line);
    }
}

static void print_sandbox(const struct doctor_facts *facts)
{
    char line[SANDBOX_LAYER_COUNT * 32] = "";

    for (unsigned bit = 0; bit < SANDBOX_LAYER_COUNT; bit++) {
        size_t used = strlen(line);

        if (facts->sandbox_layers & (1u << bit))
            snprintf(line + used, sizeof(line) - used, "%s%s", used ? " " : "",
                     sandbox_layer_name((enum sandbox_layer)(1u << bit)));
    }
    print_row("sandbox", line[0] ? line : "none");
}

static void print_missing(const struct doctor_facts *facts, const struct request *request)
{
    for (size_t i = 0; i < facts->missing_count; i++) {
        const struct doctor_missing *missing = &facts->missing[i];

        if (missing->need == DOCTOR_CUDA && !request->gpu)
            continue; /* the row of the device says so already */
        printf("\n%s: %s\n    %s\n", missing->need == DOCTOR_ADVICE ? "better with" : "missing",
               missing->what, missing->why);
        if (missing->mend[0])
            printf("    mend: %s\n", missing->mend);
    }
}

static void print_text(const struct doctor_facts *facts, const struct request *request, bool ready)
{
    char line[DOCTOR_PATH_MAX + DOCTOR_TEXT_MAX + 8];

    printf("kbv %s\n", KBV_VERSION);
    print_python(facts);
    print_devices(facts);
    for (enum doctor_tool tool = 0; tool < DOCTOR_TOOL_COUNT; tool++) {
        const struct doctor_program *program = &facts->tools[tool];

        snprintf(line, sizeof(line), "%s%s%s", program->version[0] ? program->version : "unknown",
                 ", ", program->path);
        print_row(doctor_tool_name(tool), program->path[0] ? line : "none");
    }
    print_sandbox(facts);
    print_row("kernel", facts->kernel);
    print_row("worker", facts->library[0] ? facts->library : "none");
    print_missing(facts, request);
    printf("\n%s to judge on %s\n", ready ? "ready" : "not ready", request->device);
}

/* "" becomes null: what was not found is absent. A path need not be UTF-8, JSON must. */
static json_t *text_or_null(const char *text)
{
    char clean[DOCTOR_PATH_MAX];

    if (!text[0])
        return json_null();
    text_clean(clean, sizeof(clean), text, strlen(text));
    return json_string(clean);
}

static json_t *program_json(const struct doctor_program *program)
{
    if (!program->path[0])
        return json_null();
    return json_pack("{s:o, s:o}", "path", text_or_null(program->path), "version",
                     text_or_null(program->version));
}

static json_t *devices_json(const struct doctor_facts *facts)
{
    json_t *list = json_array();

    json_array_append_new(list, json_pack("{s:s, s:s, s:i, s:I}", "device", "cpu", "name",
                                          facts->cpu_name, "cores", facts->cpu_cores,
                                          "memory_bytes", (json_int_t)facts->memory_bytes));
    for (size_t i = 0; i < facts->gpu_count; i++) {
        const struct doctor_gpu *gpu = &facts->gpus[i];
        char device[32], compute[32];

        snprintf(device, sizeof(device), "cuda:%zu", i);
        snprintf(compute, sizeof(compute), "%d.%d", gpu->compute_major, gpu->compute_minor);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:o}", "device", device, "name",
                                              gpu->name, "compute", compute, "memory_bytes",
                                              (json_int_t)gpu->memory_bytes, "driver",
                                              text_or_null(facts->gpu_driver)));
    }
    return list;
}

static json_t *sandbox_json(const struct doctor_facts *facts)
{
    json_t *active = json_array(), *absent = json_array();

    for (unsigned bit = 0; bit < SANDBOX_LAYER_COUNT; bit++) {
        const char *name = sandbox_layer_name((enum sandbox_layer)(1u << bit));

        if (facts->sandbox_layers & (1u << bit))
            json_array_append_new(active, json_string(name));
        else
            json_array_append_new(absent, json_pack("{s:s, s:s}", "layer", name, "reason",
                                                    facts->sandbox_reason[bit]));
    }
    return json_pack("{s:o, s:o}", "layers", active, "absent", absent);
}

static json_t *missing_json(const struct doctor_facts *facts)
{
    json_t *list = json_array();

    for (size_t i = 0; i < facts->missing_count; i++) {
        const struct doctor_missing *missing = &facts->missing[i];

        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:o}", "what", missing->what, "need",
                                              need_names[missing->need], "why", missing->why,
                                              "mend", text_or_null(missing->mend)));
    }
    return list;
}

static json_t *document(const struct doctor_facts *facts, const struct request *request, bool ready)
{
    json_t *compilers = json_object();
    json_t *torch = json_null();

    for (enum doctor_tool tool = 0; tool < DOCTOR_TOOL_COUNT; tool++)
        json_object_set_new(compilers, doctor_tool_name(tool), program_json(&facts->tools[tool]));
    if (facts->torch_version[0])
        torch = json_pack("{s:s, s:o}", "version", facts->torch_version, "cuda",
                          text_or_null(facts->torch_cuda));
    return json_pack("{s:s, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "schema",
                     "kbv.doctor/1", "kbv", KBV_VERSION, "device", request->device, "ready", ready,
                     "python", program_json(&facts->python), "torch", torch, "devices",
                     devices_json(facts), "no_gpu", text_or_null(facts->gpu_reason), "compilers",
                     compilers, "sandbox", sandbox_json(facts), "kernel",
                     text_or_null(facts->kernel), "library", text_or_null(facts->library),
                     "missing", missing_json(facts));
}

static int write_json(const struct doctor_facts *facts, const struct request *request, bool ready)
{
    bool to_stdout = strcmp(request->json, "-") == 0;
    FILE *out = to_stdout ? stdout : fopen(request->json, "we");
    json_t *root;
    int status = 0;

    if (!out) {
        fprintf(stderr, "kbv doctor: %s: %s\n", request->json, strerror(errno));
        return EXIT_BAD_INPUT;
    }
    root = document(facts, request, ready);
    if (!root || json_dumpf(root, out, JSON_INDENT(2)) < 0 || fputc('\n', out) == EOF ||
        fflush(out) == EOF) {
        fprintf(stderr, "kbv doctor: %s: cannot write\n", request->json);
        status = EXIT_DEFECT;
    }
    json_decref(root);
    if (!to_stdout)
        fclose(out);
    return status;
}

static int run(int argc, char **argv)
{
    enum { OPTION_DEVICE = 256, OPTION_PYTHON, OPTION_JSON, OPTION_HELP };
    static const struct option options[] = {
        {"device", required_argument, NULL, OPTION_DEVICE},
        {"python", required_argument, NULL, OPTION_PYTHON},
        {"json", required_argument, NULL, OPTION_JSON},
        {"help", no_argument, NULL, OPTION_HELP},
        {0},
    };
    struct request request = {.device = "cpu"};
    CLEANUP_FREE struct doctor_facts *facts = NULL;
    struct error err = ERROR_INIT;
    int option, status;
    bool ready;

    opterr = 0; /* its messages would name "doctor" as the program */
    while ((option = getopt_long(argc, argv, ":", options, NULL)) != -1) {
        switch (option) {
        case OPTION_DEVICE:
            if (!parse_device(optarg, &request))
                return complain("--device: not cpu, cuda or cuda:N", optarg);
            break;
        case OPTION_PYTHON:
            request.python = optarg;
            break;
        case OPTION_JSON:
            request.json = optarg;
            break;
        case OPTION_HELP:
            fputs(usage, stdout);
            return 0;
        case ':':
            return complain("a value is missing after", argv[optind - 1]);
        default:
            return complain("unknown option", argv[optind - 1]);
        }
    }
    if (optind < argc)
        return complain("takes no argument", argv[optind]);

    facts = calloc(1, sizeof(*facts));
    if (!facts || doctor_collect(request.python, facts, &err) < 0) {
        fprintf(stderr, "kbv doctor: %s\n", facts ? err.text : "out of memory");
        return facts ? (int)err.kind : EXIT_DEFECT;
    }
    ready = doctor_ready(facts, request.gpu, request.gpu_index);
    if (request.json) {
        status = write_json(facts, &request, ready);
        if (status)
            return status;
    } else {
        print_text(facts, &request, ready);
    }
    return ready ? 0 : EXIT_UNFIT;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "say what this machine has and lacks",
    .usage = usage,
    .run = run,
};
