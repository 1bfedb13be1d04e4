/* One descriptor for each subcommand; the table stands in main.c. */
#ifndef KBV_CLI_COMMAND_H
#define KBV_CLI_COMMAND_H

struct command {
    const char *name;
    const char *summary; /* one line of `kbv --help` */
    const char *usage;   /* all of `kbv NAME --help` */
    /* argv[0] is the subcommand's name. Returns the exit status. */
    int (*run)(int argc, char **argv);
};

extern const struct command command_eval;
extern const struct command command_demo;
extern const struct command command_doctor;

/* Exit statuses, the same for every subcommand (docs/evaluation.md). */
enum {
    EXIT_VERIFIED = 0,
    EXIT_NOT_VERIFIED = 1,
    EXIT_BAD_INPUT = 2,
    EXIT_UNFIT = 3,
    EXIT_DEFECT = 4,
};

#endif
