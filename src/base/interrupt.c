#include "base/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t pending;

static void on_signal(int signal)
{
    (void)signal;
    pending = 1;
}

void interrupt_catch(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    /* No SA_RESTART: a blocked system call must return. SA_RESETHAND: the second signal kills. */
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        sigaction(signals[i], &action, NULL);
    signal(SIGPIPE, SIG_IGN);
}

bool interrupt_pending(void)
{
    return pending;
}
