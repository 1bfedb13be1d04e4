#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "sandbox/internal.h"

/* Indexed by the number of the bit. The cures are short: a reason and its cure share 128 bytes. */
static const struct {
    const char *name;
    const char *cure;
} layer_table[] = {
    {"no_new_privs", "needs Linux 3.5"},
    {"landlock", "needs Linux 5.13 with landlock in lsm="},
    {"seccomp", "needs CONFIG_SECCOMP_FILTER"},
    {"rlimits", "raise the hard limits"},
    {"user_ns", "allow user namespaces (user.max_user_namespaces, AppArmor, container profile)"},
    {"pid_ns", "allow user namespaces, or grant CAP_SYS_ADMIN"},
    {"mount_ns", "allow mounts in user namespaces (AppArmor, container profile)"},
    {"net_ns", "allow user namespaces, or grant CAP_SYS_ADMIN"},
    {"ipc_ns", "allow user namespaces, or grant CAP_SYS_ADMIN"},
    {"cgroup", "needs a cgroup v2 whose memory and pids this user may hand down"},
};
_Static_assert(ARRAY_SIZE(layer_table) == SANDBOX_LAYER_COUNT, "one entry for each layer");

static struct layer_refusals refusals;
static unsigned masked;

static int layer_bit(enum sandbox_layer layer)
{
    return __builtin_ctz((unsigned)layer);
}

const char *sandbox_layer_name(enum sandbox_layer layer)
{
    if (!layer || layer_bit(layer) >= SANDBOX_LAYER_COUNT)
        return "unknown";
    return layer_table[layer_bit(layer)].name;
}

void layers_refuse(enum sandbox_layer layer, int number, const char *format, ...)
{
    char *reason = refusals.reason[layer_bit(layer)];
    size_t used;
    va_list args;

    if (refusals.layers & layer)
        return;
    refusals.layers |= layer;
    va_start(args, format);
    vsnprintf(reason, LAYER_REASON_BYTES, format, args);
    va_end(args);
    used = strlen(reason);
    if (number)
        snprintf(reason + used, LAYER_REASON_BYTES - used, ": %s", strerror(number));
}

bool layers_wanted(enum sandbox_layer layer)
{
    return !(layers_missing() & layer);
}

const struct layer_refusals *layers_refusals(void)
{
    return &refusals;
}

unsigned layers_missing(void)
{
    return refusals.layers | masked;
}

void layers_merge(const struct layer_refusals *other)
{
    for (int bit = 0; bit < SANDBOX_LAYER_COUNT; bit++) {
        if (other->layers & (1u << bit))
            layers_refuse((enum sandbox_layer)(1u << bit), 0, "%s", other->reason[bit]);
    }
}

void layers_explain(enum sandbox_layer layer, char *to, size_t size)
{
    int bit = layer_bit(layer);
    const char *reason = "not tried";

    if (refusals.layers & layer)
        reason = refusals.reason[bit];
    else if (masked & layer)
        reason = "masked";
    snprintf(to, size, "%s; %s", reason, layer_table[bit].cure);
}

void layers_mask(unsigned layers)
{
    masked = layers;
    memset(&refusals, 0, sizeof(refusals));
}
