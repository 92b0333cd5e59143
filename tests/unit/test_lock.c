#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/lock.h"

static void take_in_order(void **state)
{
	struct gq_lock build, ledger;

	(void)state;
	gq_lock_init(&build, GQ_RANK_LEDGER_BUILD);
	gq_lock_init(&ledger, GQ_RANK_LEDGER);
	gq_lock_take(&build);
	gq_lock_take(&ledger);
	assert_true(gq_lock_held(&build));
	assert_true(gq_lock_held(&ledger));
	gq_lock_release(&ledger);
	gq_lock_take(&ledger); /* again, while the outer one is still held */
	gq_lock_release(&ledger);
	gq_lock_release(&build);
	gq_lock_done(&ledger);
	gq_lock_done(&build);
}

#ifndef NDEBUG
/* Runs in a child that is expected to abort. */
static void against_the_order(void)
{
	struct gq_lock build, ledger;

	gq_lock_init(&build, GQ_RANK_LEDGER_BUILD);
	gq_lock_init(&ledger, GQ_RANK_LEDGER);
	gq_lock_take(&ledger);
	gq_lock_take(&build);
}

static void twice(void)
{
	struct gq_lock ledger;

	gq_lock_init(&ledger, GQ_RANK_LEDGER);
	gq_lock_take(&ledger);
	gq_lock_take(&ledger);
}

static void not_held(void)
{
	struct gq_lock ledger;

	gq_lock_init(&ledger, GQ_RANK_LEDGER);
	gq_lock_release(&ledger);
}

static void order_is_asserted(void **state)
{
	static void (*const bad[])(void) = {against_the_order, twice, not_held};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		pid_t child = fork();
		int status;
		if (child == 0) {
			close(STDERR_FILENO);
			signal(SIGABRT, SIG_DFL);
			bad[i]();
			_exit(0);
		}
		assert_true(child > 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
	}
}
#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(take_in_order),
#ifndef NDEBUG
	    cmocka_unit_test(order_is_asserted),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
