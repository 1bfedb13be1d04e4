#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fcntl.h>

#include "base/cleanup.h"
#include "sandbox/internal.h"

/* What the probing leaf says, in one write. */
struct probe_answer {
    unsigned layers;
    char reason[SANDBOX_LAYER_COUNT][LAYER_REASON_BYTES];
    char failure[256]; /* empty where it went well */
};

/* Limits that every process meets, so that the layers behind them are tried too. */
static const struct sandbox_policy probe_policy = {
    .mode = SANDBOX_AUTO,
    .memory_bytes = 1ull << 50, /* a sanitizer's shadow is mapped in this process, too */
    .processes = 512,
};

static void __attribute__((noreturn)) answer(int fd)
{
    struct probe_answer answer = {0};
    struct error err = ERROR_INIT;

    if (sandbox_lock(&probe_policy, &answer.layers, &err) < 0)
        snprintf(answer.failure, sizeof(answer.failure), "%.255s", err.text);
    for (int bit = 0; bit < SANDBOX_LAYER_COUNT; bit++) {
        enum sandbox_layer layer = (enum sandbox_layer)(1u << bit);

        if (!(answer.layers & layer))
            layers_explain(layer, answer.reason[bit], LAYER_REASON_BYTES);
    }
    _exit(write(fd, &answer, sizeof(answer)) == sizeof(answer) ? 0 : 1);
}

int sandbox_probe(unsigned *ret_layers, char ret_reason[SANDBOX_LAYER_COUNT][128],
                  struct error *err)
{
    CLEANUP_FD int reading = -1, writing = -1;
    struct probe_answer heard;
    int ends[2];
    ssize_t got;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return error_errno(err, ERROR_INTERNAL, "sandbox: pipe2");
    reading = ends[0];
    writing = ends[1];
    pid = sandbox_fork(&probe_policy, -1, &writing, 1, err);
    if (pid < 0)
        return -1;
    if (pid == 0)
        answer(writing);
    close(fd_steal(&writing));
    do
        got = read(reading, &heard, sizeof(heard));
    while (got < 0 && errno == EINTR);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    if (got != sizeof(heard))
        return error_set(err, ERROR_INTERNAL, "sandbox: the probing process died");
    heard.failure[sizeof(heard.failure) - 1] = '\0';
    if (heard.failure[0])
        return error_set(err, ERROR_INTERNAL, "%s", heard.failure);
    *ret_layers = heard.layers;
    memcpy(ret_reason, heard.reason, sizeof(heard.reason));
    return 0;
}
