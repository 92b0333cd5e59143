#ifndef GQ_TESTS_FAIL_ALLOC_H
#define GQ_TESTS_FAIL_ALLOC_H

#include <stdbool.h>

/* Makes an allocation of the code under test fail. The test is linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc. */

/* Of the allocations from now on, the nth (from 0) fails; -1: none. */
void fail_alloc(long nth);

/* While it is held, allocations do not count: for the test's own in between. */
void fail_alloc_hold(bool hold);

/* Whether it has failed by now. Goes back to no failures. */
bool fail_alloc_done(void);

#endif
