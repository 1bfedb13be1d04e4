/* Builds that a candidate asks for: as data, in a sandbox without a device, kept by content. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/secret.h"
#include "base/text.h"
#include "build/cache.h"
#include "judge/judging.h"
#include "wire/blob.h"

#define SPEC_MAX   (16u << 20)
#define BUILDS_MAX 32 /* of one evaluation: its processes ask for the same ones again */
#define FULL_BYTES (1u << 20)

static int answer(struct job *job, const char *path, const char *text, struct error *err)
{
    struct frame frame;

    frame_init(&frame, MESSAGE_BUILT);
    frame_put_text(&frame, path);
    frame_put_text(&frame, text);
    /* A candidate that no longer listens has ended: whoever waits for it will see that. */
    return frame_send(job->channel, &frame, NULL, 0, 10 * NS_PER_S, err) == FRAME_ERROR ? -1 : 0;
}

/* Everything but the specification that decides about the product. */
static void build_key(const struct judging *judging, const char *spec, size_t spec_length,
                      char ret_key[HASH_HEX_BYTES])
{
    const struct session *session = judging->session;
    const char *compiler = getenv("CXX");
    const struct hash_piece pieces[] = {
        {"kbv build 1", 11},
        {spec, spec_length},
        {session->torch_version, strlen(session->torch_version)},
        {session->python_version, strlen(session->python_version)},
        {session->cuda_version, strlen(session->cuda_version)},
        {session->python, strlen(session->python)},
        {compiler ? compiler : "", compiler ? strlen(compiler) : 0},
        {judging->evaluation->device_name, strlen(judging->evaluation->device_name)},
    };

    hash_pieces_hex(pieces, ARRAY_SIZE(pieces), ret_key);
}

static void keep_log(struct judging *judging, struct job *builder)
{
    char tail[TAIL_BYTES];
    uint64_t total;
    size_t length;

    tail_stop(builder->output);
    length = tail_read(builder->output, tail, &total);

    text_clean_tail(judging->evaluation->build_log, sizeof(judging->evaluation->build_log), tail,
                    length);
}

static bool is_full(const char *path)
{
    struct statvfs status;

    return statvfs(path, &status) == 0 && (uint64_t)status.f_bavail * status.f_frsize < FULL_BYTES;
}

/* Runs the builder. 0 with a path, 1 with a complaint in `text`, -1 with `err`. */
static int compile(struct judging *judging, const char *spec, size_t spec_length, struct job *job,
                   const char *key, char *ret_path, size_t path_size, char *text, size_t text_size,
                   struct error *err)
{
    uint64_t timeout_ns = (uint64_t)(judging->request->build_timeout_s * 1e9);
    char product[PATH_MAX + 512], place[PATH_MAX + 128], name[256];
    struct error ignored = ERROR_INIT;
    CLEANUP_FD int spec_fd = -1;
    struct job *builder = NULL;
    struct frame_reader reader;
    enum job_outcome outcome;
    struct frame frame;
    int status = 1;

    if (blob_new(spec, spec_length, &spec_fd, err) < 0 ||
        job_start(judging->session, ROLE_BUILDER, 0, &builder, err) < 0)
        return -1;
    if (job_wait_ready(builder, err) < 0) {
        status = -1;
        goto out;
    }
    frame_init(&frame, MESSAGE_COMPILE);
    outcome = job_request(builder, &frame, &spec_fd, 1, timeout_ns, &frame, NULL, NULL, err);
    keep_log(judging, builder);
    switch (outcome) {
    case JOB_OK:
        break;
    case JOB_FAILED:
        snprintf(text, text_size, "%.1000s", builder->failure.text);
        /* Asked of the system: a compiler says what sources make it say. */
        if (is_full(builder->scratch)) {
            error_set(err, ERROR_USAGE,
                      "%s: No space left on device for the build; set TMPDIR to a directory with "
                      "more",
                      builder->scratch);
            status = -1;
        }
        goto out;
    case JOB_TIMED_OUT:
        snprintf(text, text_size, "the build took more than %g s",
                 judging->request->build_timeout_s);
        goto out;
    case JOB_DIED:
        snprintf(text, text_size, "the builder ended by itself");
        goto out;
    case JOB_FORGED:
        snprintf(text, text_size, "the builder sent a %.500s", builder->failure.text);
        goto out;
    case JOB_BROKEN:
        status = -1;
        goto out;
    }
    reader = frame_read(&frame);
    frame_get_text(&reader, name, sizeof(name));
    if (!frame_done(&reader) || strncmp(name, "build/", 6) != 0 || !cache_name_valid(name + 6)) {
        snprintf(text, text_size, "the builder named no library");
        goto out;
    }
    snprintf(product, sizeof(product), "%s/%s", builder->scratch, name);
    snprintf(place, sizeof(place), "%s/%s", job->builds, key);
    if ((size_t)snprintf(ret_path, path_size, "%s/%s", place, name + 6) >= path_size ||
        directory_make(place, err) < 0 || file_copy(product, ret_path, 0, err) < 0) {
        error_context(err, "keeping a finished build");
        status = -1;
        goto out;
    }
    /* A cache that is full or read-only costs time, not the evaluation. */
    if (cache_keep(judging->session->cache, key, ret_path, &ignored) < 0)
        ignored.kind = ERROR_NONE;
    status = 0;
out:
    job_free(builder);
    return status;
}

int judging_build(void *context, struct job *job, int spec_fd, struct error *err)
{
    struct judging *judging = context;
    uint64_t started = clock_now_ns();
    CLEANUP_FREE char *spec = NULL;
    char key[HASH_HEX_BYTES], path[PATH_MAX], text[1200] = "";
    struct error ignored = ERROR_INIT;
    size_t length;
    int status = 0;

    /* What cannot be read is the candidate's fault: it gets a refusal, not the judge an error. */
    if (blob_read(spec_fd, SPEC_MAX, &spec, &length, &ignored) < 0)
        return answer(job, "", ignored.text, err);
    build_key(judging, spec, length, key);
    if (!cache_fetch(judging->session->cache, key, job->builds, path, sizeof(path))) {
        if (judging->builds++ == BUILDS_MAX ||
            (double)judging->build_ns > 2e9 * judging->request->build_timeout_s)
            return answer(job, "", "the candidate asks for too many builds", err);
        judging_progress(judging, STAGE_BUILD, "compiling", 0, 0);
        status =
            compile(judging, spec, length, job, key, path, sizeof(path), text, sizeof(text), err);
    }
    judging->build_ns += clock_now_ns() - started;
    if (status < 0)
        return -1;
    return answer(job, status == 0 ? path : "", text, err);
}
