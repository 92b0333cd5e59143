#ifndef GQ_QUOTA_MESSAGE_H
#define GQ_QUOTA_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Every sentence that a user of the cluster can read: one table, an enum value each, with named
 * placeholders, so that a further language is a column and nothing else. */

enum gq_locale { GQ_LOCALE_EN, GQ_LOCALE_COUNT };

/* X(name, placeholders). What the placeholders are filled with, by name, where nothing else is
 * said: tenant child namespace owner node class claim …   a name as it stands limit            a
 * phrase of gq_message_gpus() or gq_message_memory() with the limit's class: "8 A100 GPUs", "640Gi
 * of A100 memory" gpus             a phrase of gq_message_gpus() without a class: "1 GPU" used asks
 * excess free bound … more   a bare amount, gq_shares_print() or gq_mib_print(): "7" states what
 * STATES or STATES_TERMINATING printed list listed classes   names with ", " between them label
 * value      of the nodeSelector that would do */
#define GQ_MESSAGES(X)                                                                             \
	/* denials about a limit; the first line of a refusal. PARENT: tenant owns the limit and   \
	 * is above child, the pod's own tenant. used holds reserved too. */                       \
	X(OVER_LIMIT, "tenant limit used states asks excess")                                      \
	X(OVER_LIMIT_PARENT, "tenant child limit used states asks excess")                         \
	X(OVER_MEMORY, "tenant limit used states asks excess")                                     \
	X(OVER_MEMORY_PARENT, "tenant child limit used states asks excess")                        \
	/* {states} of the above */                                                                \
	X(STATES, "bound pending reserved")                                                        \
	X(STATES_TERMINATING, "bound pending reserved terminating")                                \
	/* further lines. HOLDERS: all are in the namespace of the request; MORE: some are; CUT:   \
	 */                                                                                        \
	/* there are more here too; ELSEWHERE: none is. list: "llm-7f9c (2), llm-8a0d (1)" */      \
	X(HOLDERS, "namespace list")                                                               \
	X(HOLDERS_MORE, "namespace list more")                                                     \
	X(HOLDERS_CUT, "namespace list more")                                                      \
	X(HOLDERS_ELSEWHERE, "namespace more")                                                     \
	X(FIT_FEWER, "gpus")                                                                       \
	X(FIT_CLASS, "class free label value")                                                     \
	X(FIT_FEWER_OR_CLASS, "gpus class free label value")                                       \
	X(FIT_NARROW, "classes label value")                                                       \
	X(FIT_NONE, "")                                                                            \
	X(SURGE, "owner")                                                                          \
	/* in front of a refusal that only warns */                                                \
	X(WARNING_PREFIX, "")                                                                      \
	/* other refusals. UNLISTED: listed are the classes that tenant has quota for; NONE: */    \
	/* there are none. */                                                                      \
	X(UNLISTED, "tenant class listed")                                                         \
	X(UNLISTED_NONE, "tenant class")                                                           \
	X(UNASSIGNED, "namespace")                                                                 \
	X(NAMESPACE_AMBIGUOUS, "namespace first second")                                           \
	X(CLASS_AMBIGUOUS, "tenant classes label value")                                           \
	/* limit: a phrase without class, "4 GPUs" */                                              \
	X(POD_LIMIT, "tenant limit asks")                                                          \
	X(POD_LIMIT_RULE, "limit asks")                                                            \
	/* what rules find. where: VOLUME_… printed; container: "initContainers/NAME" */         \
	X(VOLUME_HOST_PATH, "volume path")                                                         \
	X(VOLUME_CLAIM, "volume claim name path")                                                  \
	X(VOLUME_EPHEMERAL, "volume name path")                                                    \
	X(RULE_MORE, "count")                                                                      \
	X(RULE_PRIVILEGED, "container")                                                            \
	X(RULE_HOST_PROCESS, "container")                                                          \
	X(RULE_HOST_PID, "container capability")                                                   \
	X(RULE_PROC_MOUNT, "container")                                                            \
	X(RULE_SOCKET, "where socket")                                                             \
	X(RULE_DEVICE, "where device")                                                             \
	X(RULE_CLAIMS, "volume")                                                                   \
	X(RULE_HOST_PATH, "where list")                                                            \
	X(RULE_HOST_PATH_NONE, "where")                                                            \
	X(RULE_HOST_PATH_READ_ONLY, "where path volume")                                           \
	X(RULE_ENV_DEVICES, "container name value")                                                \
	X(RULE_ENV_REFERENCE, "container name from")                                               \
	X(RULE_ENV_CAPABILITIES, "container name runtime")                                         \
	X(RULE_ENV_FROM, "container prefix source")                                                \
	X(RULE_SCHEDULER, "scheduler")                                                             \
	X(RULE_ANNOTATION, "name")                                                                 \
	X(RULE_NODE_NAME, "node")                                                                  \
	X(RULE_BYPASS_LABEL, "name value")                                                         \
	X(RULE_BYPASS_ENV, "container name value")                                                 \
	X(RULE_BYPASS_SCHEDULER, "scheduler list")                                                 \
	X(RULE_GPU_MEMORY, "container name list")                                                  \
	X(RULE_USER_NAMESPACE, "field")                                                            \
	X(RULE_USER_NAMESPACE_HOST, "field")                                                       \
	X(RULE_USER_NAMESPACE_WINDOWS, "field")                                                    \
	X(RULE_PROBE, "container")                                                                 \
	/* container, name, value, detail: of struct gq_pod_problem */                             \
	X(UNSUPPORTED_RESOURCE, "container name detail")                                           \
	X(UNSUPPORTED_ANNOTATION, "name detail")                                                   \
	X(BAD_QUANTITY, "container name value detail")                                             \
	X(EARLIER_BINDING, "node")                                                                 \
	X(TOO_BIG, "")                                                                             \
	X(CLAIM, "claim device_class")                                                             \
	X(CLAIM_UNREADABLE, "claim detail")                                                        \
	X(CLASS_UNREADABLE, "claim device_class")                                                  \
	X(OWNER_ATTEMPTS, "owner count seconds")                                                   \
	X(REQUEST_UID_REUSED, "")                                                                  \
	X(BINDING_NO_ROOM, "node class tenant limit used asks")                                    \
	X(BINDING_UNLISTED, "node class tenant")                                                   \
	/* problems: what gq_policy_problems_print() printed, several lines */                     \
	X(POLICY_INVALID, "problems")                                                              \
	X(POLICY_NO_KEY, "key")                                                                    \
	/* answers to the API server itself */                                                     \
	X(NOT_SYNCED, "")                                                                          \
	X(NOT_LEADER, "")                                                                          \
	X(JOURNAL, "")                                                                             \
	X(JOURNAL_FULL, "")                                                                        \
	X(WATCH_LAGS, "")                                                                          \
	X(OVERLOADED, "")                                                                          \
	X(TOO_LATE, "")                                                                            \
	X(BAD_REVIEW, "detail")                                                                    \
	/* the phrases of gq_message_gpus() and gq_message_memory(), not to be printed directly */ \
	X(GPUS_ONE, "count")                                                                       \
	X(GPUS_MANY, "count")                                                                      \
	X(GPUS_CLASS_ONE, "count class")                                                           \
	X(GPUS_CLASS_MANY, "count class")                                                          \
	X(GPUS_ANY_ONE, "count")                                                                   \
	X(GPUS_ANY_MANY, "count")                                                                  \
	X(GPUS_OTHER_ONE, "count")                                                                 \
	X(GPUS_OTHER_MANY, "count")                                                                \
	X(MEMORY, "amount")                                                                        \
	X(MEMORY_CLASS, "amount class")                                                            \
	X(MEMORY_ANY, "amount")                                                                    \
	X(MEMORY_OTHER, "amount")

enum gq_message_id {
#define GQ_MESSAGE_ENUM(name, placeholders) GQ_MSG_##name,
	GQ_MESSAGES(GQ_MESSAGE_ENUM)
#undef GQ_MESSAGE_ENUM
	    GQ_MSG_COUNT
};

struct gq_message_arg {
	const char *name;  /* of the placeholder {name} */
	const char *value; /* borrowed during the call */
};

/* Appends the sentence with its placeholders filled in; control characters in values become spaces
 * and values are cut at 253 bytes (the longest name Kubernetes allows) on a character boundary:
 * list, listed, classes and detail at 1024, and problems at 16 KiB with its line breaks kept.
 * A placeholder without an argument is a bug of ours and prints as "?"; arguments that the sentence
 * does not name are left alone. Returns out->code. */
int gq_message_print(struct gq_buf *out, enum gq_locale locale, enum gq_message_id id,
		     const struct gq_message_arg *args, size_t n_args);

/* Appends an amount with its noun in the right number. class_name: NULL "2 GPUs", "1 GPU",
 * "0.5 GPU"; a model "2 A100 GPUs"; "*" "2 GPUs of any model"; "other" "2 GPUs of unlisted models".
 * Both return out->code. */
int gq_message_gpus(struct gq_buf *out, enum gq_locale locale, int64_t shares,
		    const char *class_name);
/* "640Gi of memory", "640Gi of A100 memory", "640Gi of GPU memory" (for "*"). */
int gq_message_memory(struct gq_buf *out, enum gq_locale locale, int64_t mib,
		      const char *class_name);

/* The template itself, for tests that compare locales. */
const char *gq_message_template(enum gq_locale locale, enum gq_message_id id);
const char *gq_message_name(enum gq_message_id id);
/* The names of a message's placeholders, with a space between them. */
const char *gq_message_placeholders(enum gq_message_id id);

#endif
