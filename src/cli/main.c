/*
 * kbv: judges GPU kernels that language models wrote.
 *
 * Theory of operation. This program is the judge: it plans, starts and ends the other processes,
 * keeps the clock, decides. It links neither Python nor CUDA, so that neither a crashing
 * interpreter nor a wedged driver can take it down.
 *
 *   kbv ─┬─ warm parent (python3 with torch) ── reference process: trusted, holds what is true
 *        └─ warm parent (python3 with torch) ─┬ candidate: untrusted, sandboxed, one an evaluation
 *                                             ├ baseline: the reference's own code, timed
 *                                             └ builder: sandboxed, no device
 *
 * Warm parents import torch once and fork a job for each request. Jobs share device memory through
 * descriptors that the judge hands on: inputs read-only, outputs through a region with guard
 * zones. Everything may die at any moment except the judge; when the judge dies, the warm parents
 * see its socket close, end their jobs and remove every file.
 */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/command.h"

static const struct command *const commands[] = {&command_eval, &command_demo, &command_doctor};

static void print_usage(FILE *out)
{
    fputs("usage: kbv COMMAND [arguments]\n"
          "\n"
          "Judges whether a GPU kernel really beats PyTorch.\n"
          "\n",
          out);
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
        fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
    fputs("\n"
          "  kbv COMMAND --help   the options of a command\n"
          "  kbv --version        the version\n",
          out);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_usage(stderr);
        return EXIT_BAD_INPUT;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("kbv " KBV_VERSION);
        return 0;
    }
    for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
        if (strcmp(argv[1], commands[i]->name) == 0)
            return commands[i]->run(argc - 1, argv + 1);
    }
    fprintf(stderr, "kbv: there is no command '%s'; see `kbv --help`\n", argv[1]);
    return EXIT_BAD_INPUT;
}
