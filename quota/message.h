#ifndef GQ_QUOTA_MESSAGE_H
#define GQ_QUOTA_MESSAGE_H

#include <stddef.h>

#include "base/buf.h"

/* Every sentence that a user of the cluster can read: one table, an enum value each, with named
 * placeholders, so that a further language is a column and nothing else. */

enum gq_locale { GQ_LOCALE_EN, GQ_LOCALE_COUNT };

#define GQ_MESSAGES(X)                                                                             \
	/* denials about a limit; the first line of a refusal */                                   \
	X(OVER_LIMIT)                                                                              \
	X(OVER_LIMIT_PARENT)                                                                       \
	X(OVER_MEMORY)                                                                             \
	X(OVER_MEMORY_PARENT)                                                                      \
	/* further lines */                                                                        \
	X(HOLDERS)                                                                                 \
	X(HOLDERS_ELSEWHERE)                                                                       \
	X(FIT_FEWER)                                                                               \
	X(FIT_CLASS)                                                                               \
	X(FIT_FEWER_OR_CLASS)                                                                      \
	X(FIT_NARROW)                                                                              \
	X(FIT_NONE)                                                                                \
	X(SURGE)                                                                                   \
	/* other refusals */                                                                       \
	X(UNLISTED)                                                                                \
	X(UNASSIGNED)                                                                              \
	X(NAMESPACE_AMBIGUOUS)                                                                     \
	X(CLASS_AMBIGUOUS)                                                                         \
	X(POD_LIMIT)                                                                               \
	X(POD_LIMIT_RULE)                                                                          \
	X(UNSUPPORTED_RESOURCE)                                                                    \
	X(UNSUPPORTED_ANNOTATION)                                                                  \
	X(BAD_QUANTITY)                                                                            \
	X(CLAIM)                                                                                   \
	X(CLAIM_UNREADABLE)                                                                        \
	X(OWNER_ATTEMPTS)                                                                          \
	X(REQUEST_UID_REUSED)                                                                      \
	X(BINDING_NO_ROOM)                                                                         \
	X(BINDING_UNLISTED)                                                                        \
	X(POLICY_INVALID)                                                                          \
	X(POLICY_NO_KEY)                                                                           \
	/* answers to the API server itself */                                                     \
	X(NOT_SYNCED)                                                                              \
	X(OVERLOADED)                                                                              \
	X(TOO_LATE)                                                                                \
	X(BAD_REVIEW)

enum gq_message_id {
#define GQ_MESSAGE_ENUM(name) GQ_MSG_##name,
	GQ_MESSAGES(GQ_MESSAGE_ENUM)
#undef GQ_MESSAGE_ENUM
	GQ_MSG_COUNT
};

struct gq_message_arg {
	const char *name;  /* of the placeholder {name} */
	const char *value; /* borrowed during the call */
};

/* Appends the sentence with its placeholders filled in; control characters in values become spaces
 * and values are cut at 253 bytes (the longest name Kubernetes allows) on a character boundary.
 * A placeholder without an argument is a bug of ours and prints as "?". Returns out->code. */
int gq_message_print(struct gq_buf *out, enum gq_locale locale, enum gq_message_id id,
		     const struct gq_message_arg *args, size_t n_args);

/* The template itself, for tests that compare locales. */
const char *gq_message_template(enum gq_locale locale, enum gq_message_id id);
const char *gq_message_name(enum gq_message_id id);

#endif
