/*
 * A kept file is: 8 bytes of magic, BLAKE2b-256 of the image, the image. Its name is the hash of
 * everything that the image depends on. Files are written beside and renamed, so that a reader
 * sees a whole file or none, and two writers write the same.
 */
#include "device/cuda_kernels.h"

#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "device/cuda_nvrtc.h"

#define HASH_BYTES     32
#define MAGIC          "kbv-gpu1"
#define MAGIC_BYTES    (sizeof(MAGIC) - 1)
#define HEADER_BYTES   (MAGIC_BYTES + HASH_BYTES)
#define KEPT_BYTES_MAX ((size_t)16 << 20)

/* Length first, so that no two different lists of texts are the same bytes. */
static void hash_text(crypto_generichash_state *state, const char *text)
{
    uint64_t length = strlen(text);

    crypto_generichash_update(state, (const unsigned char *)&length, sizeof(length));
    crypto_generichash_update(state, (const unsigned char *)text, length);
}

static void name_image(const struct kernel_source *source, const char *const *defines,
                       const char *target, char ret_name[HASH_BYTES * 2 + 1])
{
    crypto_generichash_state state;
    unsigned char hash[HASH_BYTES];

    crypto_generichash_init(&state, NULL, 0, HASH_BYTES);
    hash_text(&state, source->text);
    hash_text(&state, target);
    for (; *defines; defines++)
        hash_text(&state, *defines);
    crypto_generichash_final(&state, hash, HASH_BYTES);
    sodium_bin2hex(ret_name, HASH_BYTES * 2 + 1, hash, HASH_BYTES);
}

/* -1 where there is no such file or it is not whole; that is no error, the image is made again. */
static int read_kept(const char *path, void **ret_image, size_t *ret_bytes)
{
    CLEANUP_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
    CLEANUP_FREE unsigned char *file = NULL, *image = NULL;
    unsigned char hash[HASH_BYTES];
    struct stat status;
    size_t size, bytes;

    if (fd < 0 || fstat(fd, &status) < 0 || status.st_size <= (off_t)HEADER_BYTES ||
        status.st_size > (off_t)KEPT_BYTES_MAX)
        return -1;
    size = (size_t)status.st_size;
    bytes = size - HEADER_BYTES;
    file = malloc(size);
    image = malloc(bytes);
    if (!file || !image || read(fd, file, size) != (ssize_t)size)
        return -1;
    crypto_generichash(hash, HASH_BYTES, file + HEADER_BYTES, bytes, NULL, 0);
    if (memcmp(file, MAGIC, MAGIC_BYTES) != 0 || memcmp(file + MAGIC_BYTES, hash, HASH_BYTES) != 0)
        return -1;
    memcpy(image, file + HEADER_BYTES, bytes);
    *ret_image = pointer_steal(&image);
    *ret_bytes = bytes;
    return 0;
}

/* Failure is silent: keeping saves time and nothing else. */
static void keep(const char *directory, const char *path, const void *image, size_t bytes)
{
    char draft[PATH_MAX];
    unsigned char header[HEADER_BYTES];
    CLEANUP_FD int fd = -1;

    if (snprintf(draft, sizeof(draft), "%s/draft-XXXXXX", directory) >= (int)sizeof(draft))
        return;
    fd = mkostemp(draft, O_CLOEXEC);
    if (fd < 0)
        return;
    memcpy(header, MAGIC, MAGIC_BYTES);
    crypto_generichash(header + MAGIC_BYTES, HASH_BYTES, image, bytes, NULL, 0);
    if (write(fd, header, HEADER_BYTES) != (ssize_t)HEADER_BYTES ||
        write(fd, image, bytes) != (ssize_t)bytes || rename(draft, path) < 0)
        unlink(draft);
}

int cuda_kernels_image(const struct kernel_source *source, const char *const *defines,
                       int compute_major, int compute_minor, void **ret_image, size_t *ret_bytes,
                       struct error *err)
{
    const char *directory = getenv("KBV_KERNEL_CACHE");
    char target[64], name[HASH_BYTES * 2 + 1], path[PATH_MAX];
    int major = 0, minor = 0;

    if (cuda_nvrtc_open(&major, &minor, err) < 0)
        return -1;
    snprintf(target, sizeof(target), "compute %d.%d by NVRTC %d.%d", compute_major, compute_minor,
             major, minor);
    name_image(source, defines, target, name);
    if (!directory || !directory[0] ||
        snprintf(path, sizeof(path), "%s/%s.cubin", directory, name) >= (int)sizeof(path))
        directory = NULL;
    if (directory && read_kept(path, ret_image, ret_bytes) == 0)
        return 0;
    if (cuda_nvrtc_compile(source->name, source->text, defines, compute_major, compute_minor,
                           ret_image, ret_bytes, err) < 0)
        return -1;
    if (directory)
        keep(directory, path, *ret_image, *ret_bytes);
    return 0;
}
