/* SIGINT, SIGTERM and SIGHUP as a flag: waits look at it and end with ERROR_INTERRUPTED. */
#ifndef KBV_BASE_INTERRUPT_H
#define KBV_BASE_INTERRUPT_H

#include <stdbool.h>

/* Catches the signals from now on. The second one ends the process at once. */
void interrupt_catch(void);
bool interrupt_pending(void);

#endif
