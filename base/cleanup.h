#ifndef GQ_BASE_CLEANUP_H
#define GQ_BASE_CLEANUP_H

#include <stdlib.h>

/* Scope-bound ownership (GCC and Clang). A local owner is declared with GQ_CLEANUP(its cleanup
 * function); ownership leaves the scope by GQ_STEAL. */

#define GQ_CLEANUP(fn) __attribute__((cleanup(fn)))

/* Evaluates to the pointer and leaves NULL behind. */
#define GQ_STEAL(p)                                                                                \
	__extension__({                                                                            \
		__typeof__(p) *gq_steal_at = &(p);                                                 \
		__typeof__(p) gq_stolen = *gq_steal_at;                                            \
		*gq_steal_at = NULL;                                                               \
		gq_stolen;                                                                         \
	})

/* Defines `static inline void NAME(TYPE **p)`, to be used with GQ_CLEANUP, from a function that
 * frees a TYPE* and takes NULL. */
#define GQ_DEFINE_CLEANUP(name, type, free_fn)                                                     \
	static inline void name(type **p)                                                          \
	{                                                                                          \
		free_fn(*p);                                                                       \
		*p = NULL;                                                                         \
	}                                                                                          \
	struct gq_require_semicolon

GQ_DEFINE_CLEANUP(gq_cleanup_str, char, free);

#define GQ_AUTOFREE GQ_CLEANUP(gq_cleanup_str)

#endif
