#include <errno.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

#include "base/cleanup.h"
#include "sandbox/internal.h"

/*
 * In a user namespace of our own they would permit mounts; without one, a root that keeps them is
 * bound by nothing. Dropped from every set, and user id 0 is told to give none back at an exec.
 */
void limits_drop_capabilities(void)
{
    enum { CAPABILITIES_MAX = 64 };
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {{0}};

    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    /* These two need CAP_SETPCAP, which a plain user has not, and who has not needs neither. */
    for (unsigned long capability = 0; capability < CAPABILITIES_MAX; capability++)
        prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
    prctl(PR_SET_SECUREBITS,
          SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
              SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_NO_CAP_AMBIENT_RAISE |
              SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED,
          0, 0, 0);
    syscall(SYS_capset, &header, none);
}

/* Since 5.14 a user namespace counts its own processes; before, all processes of the user were
 * counted together, and a bound for one sandbox would have hit whatever else the user runs. */
static bool counts_by_namespace(void)
{
    struct utsname system;
    int major, minor;

    if (uname(&system) < 0 || sscanf(system.release, "%d.%d", &major, &minor) != 2)
        return false;
    return major > 5 || (major == 5 && minor >= 14);
}

static int limit(int resource, const char *name, uint64_t value, struct error *err)
{
    struct rlimit now, want;

    if (getrlimit((__rlimit_resource_t)resource, &now) < 0)
        return error_errno(err, ERROR_INTERNAL, "sandbox: getrlimit(%s)", name);
    /* A limit that is lower already stays. */
    want.rlim_cur = want.rlim_max = value < now.rlim_max ? value : now.rlim_max;
    if (setrlimit((__rlimit_resource_t)resource, &want) < 0)
        return error_errno(err, ERROR_INTERNAL, "sandbox: setrlimit(%s)", name);
    return 0;
}

int limits_apply(const struct sandbox_policy *policy, const struct sandbox_state *state,
                 struct error *err)
{
    bool counted = (state->layers & SANDBOX_USER_NS) && counts_by_namespace();
    const struct {
        int resource;
        const char *name;
        bool set;
        uint64_t value;
    } table[] = {
        {RLIMIT_CORE, "CORE", true, 0},
        {RLIMIT_RTPRIO, "RTPRIO", true, 0}, /* a real-time loop would starve the judge */
        {RLIMIT_DATA, "DATA", policy->memory_bytes, policy->memory_bytes},
        {RLIMIT_FSIZE, "FSIZE", policy->file_bytes, policy->file_bytes},
        {RLIMIT_NOFILE, "NOFILE", policy->open_files, policy->open_files},
        /* The supervisor is one of them. */
        {RLIMIT_NPROC, "NPROC", policy->processes && counted, (uint64_t)policy->processes + 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        if (table[i].set && limit(table[i].resource, table[i].name, table[i].value, err) < 0)
            return -1;
    }
    return 0;
}
