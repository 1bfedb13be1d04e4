/* What the unit tests of this module include: cmocka and what it needs before it. */
#ifndef KBV_TESTS_UNIT_DEVICE_UNIT_H
#define KBV_TESTS_UNIT_DEVICE_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif
