#ifndef GQ_QUOTA_MESSAGE_H
#define GQ_QUOTA_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "quota/locale.h"
#include "quota/phrase.h"

/* Every sentence that a user of the cluster can read, in every language, with named placeholders.
 * A new one takes a line in the lists below and one in the table of each language, message_en.c and
 * message_zh.c, which have the same order. */

/* X(name, placeholders). What the placeholders are filled with, by name, where nothing else is
 * said:
 *   tenant child namespace owner node class claim …  a name as it stands
 *   limit    a phrase of gq_message_gpus() or gq_message_memory() with the limit's class:
 *            "8 A100 GPUs", "640Gi of A100 memory"
 *   gpus     a phrase of gq_message_gpus() without a class: "1 GPU"
 *   used asks excess free bound … more  a bare amount, gq_message_shares() or gq_message_mib(): "7"
 *   states   STATES or STATES_TERMINATING printed
 *   list     HOLDER printed, with LIST_SEPARATOR between them
 *   listed classes  names with LIST_SEPARATOR between them
 *   label value     of the nodeSelector that would do
 *   detail   a name or one of the phrases about it */

/* Sentences, by subject. */
#define GQ_SENTENCES(X)                                                                            \
	/* Denials about a limit; the first line of a refusal. PARENT: tenant owns the limit and   \
	 * is above child, the pod's own tenant. used holds reserved too. */                       \
	X(OVER_LIMIT, "tenant limit used states asks excess")                                      \
	X(OVER_LIMIT_PARENT, "tenant child limit used states asks excess")                         \
	X(OVER_MEMORY, "tenant limit used states asks excess")                                     \
	X(OVER_MEMORY_PARENT, "tenant child limit used states asks excess")                        \
	/* Who holds what: all in the namespace of the request; some; some, and there are more     \
	 * here too; none. list: "llm-7f9c (2), llm-8a0d (1)" */                                   \
	X(HOLDERS, "namespace list")                                                               \
	X(HOLDERS_MORE, "namespace list more")                                                     \
	X(HOLDERS_CUT, "namespace list more")                                                      \
	X(HOLDERS_ELSEWHERE, "namespace more")                                                     \
	/* What would fit. */                                                                      \
	X(FIT_FEWER, "gpus")                                                                       \
	X(FIT_CLASS, "class free label value")                                                     \
	X(FIT_FEWER_OR_CLASS, "gpus class free label value")                                       \
	X(FIT_NARROW, "classes label value")                                                       \
	X(FIT_NONE, "")                                                                            \
	X(FIT_NEVER, "")                                                                           \
	X(SURGE, "owner")                                                                          \
	/* Workloads. kind: "Deployment". NEVER: a pod of it is over a limit whatever others hold. \
	 * SHORT: not all of its pods fit now; pods: WORKLOAD_PODS_… printed. field: where their \
	 * number is, spec.replicas */                                                             \
	X(WORKLOAD_NEVER, "tenant limit asks excess")                                              \
	X(WORKLOAD_NEVER_PARENT, "tenant child limit asks excess")                                 \
	X(WORKLOAD_NEVER_MEMORY, "tenant limit asks excess")                                       \
	X(WORKLOAD_NEVER_MEMORY_PARENT, "tenant child limit asks excess")                          \
	X(WORKLOAD_SHORT, "tenant limit free kind needs pods lacks")                               \
	X(WORKLOAD_SHORT_PARENT, "tenant child limit free kind needs pods lacks")                  \
	X(WORKLOAD_SHORT_MEMORY, "tenant limit free kind needs pods lacks")                        \
	X(WORKLOAD_SHORT_MEMORY_PARENT, "tenant child limit free kind needs pods lacks")           \
	X(WORKLOAD_FIT_PODS, "count field")                                                        \
	X(WORKLOAD_FIT_SURGE, "")                                                                  \
	X(WORKLOAD_FIT_NODES, "")                                                                  \
	X(WORKLOAD_FIT_NONE, "")                                                                   \
	/* The tenant and its classes. listed: those that it has quota for; NONE: there are none.  \
	 */                                                                                        \
	X(UNLISTED, "tenant class listed")                                                         \
	X(UNLISTED_NONE, "tenant class")                                                           \
	X(CLASS_AMBIGUOUS, "tenant classes label value")                                           \
	/* The namespace. */                                                                       \
	X(UNASSIGNED, "namespace")                                                                 \
	X(NAMESPACE_AMBIGUOUS, "namespace first second")                                           \
	/* Rules about one pod. limit: a phrase without class, "4 GPUs" */                         \
	X(POD_LIMIT, "tenant limit asks")                                                          \
	X(POD_LIMIT_RULE, "limit asks")                                                            \
	X(POD_LIMIT_MAY, "tenant limit asks")                                                      \
	X(POD_LIMIT_RULE_MAY, "limit asks")                                                        \
	/* what rules find. where: a phrase VOLUME_…; container: "initContainers/NAME" */        \
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
	X(RULE_ENV_EPHEMERAL, "container name value")                                              \
	X(RULE_ENV_REFERENCE, "container name from")                                               \
	X(RULE_ENV_CAPABILITIES, "container name runtime")                                         \
	X(RULE_ENV_FROM, "container prefix source name kind")                                      \
	X(RULE_SCHEDULER, "scheduler")                                                             \
	X(RULE_ANNOTATION, "name")                                                                 \
	X(RULE_NODE_NAME, "node")                                                                  \
	X(RULE_NODE_NAME_SHARE, "node")                                                            \
	X(RULE_BYPASS_LABEL, "name value")                                                         \
	X(RULE_BYPASS_ENV, "container name value")                                                 \
	X(RULE_BYPASS_SCHEDULER, "scheduler list")                                                 \
	X(RULE_GPU_MEMORY, "container name list")                                                  \
	X(RULE_USER_NAMESPACE, "field")                                                            \
	X(RULE_USER_NAMESPACE_HOST, "field")                                                       \
	X(RULE_USER_NAMESPACE_WINDOWS, "field")                                                    \
	X(RULE_PROBE, "container")                                                                 \
	X(RULE_LEFT_OUT, "count")                                                                  \
	X(RULE_UNREADABLE, "")                                                                     \
	X(RULE_ENV_MAPS, "container")                                                              \
	X(RULE_ENV_BEYOND, "container name value")                                                 \
	X(RULE_PLACED, "name")                                                                     \
	/* container, name, value, detail: of struct gq_pod_problem */                             \
	X(UNSUPPORTED_RESOURCE, "container name detail")                                           \
	X(UNSUPPORTED_ANNOTATION, "name detail")                                                   \
	X(BAD_QUANTITY, "container name value detail")                                             \
	X(TOO_BIG, "")                                                                             \
	X(OBJECT_TOO_BIG, "detail")                                                                \
	/* Resource claims. */                                                                     \
	X(CLAIM, "claim device_class")                                                             \
	X(CLAIM_UNREADABLE, "claim detail")                                                        \
	X(CLASS_UNREADABLE, "claim device_class")                                                  \
	/* Requests that come again. */                                                            \
	X(OWNER_ATTEMPTS, "owner count seconds")                                                   \
	X(REQUEST_UID_REUSED, "")                                                                  \
	/* Bindings. */                                                                            \
	X(BINDING_NO_ROOM, "node class tenant limit used asks")                                    \
	X(BINDING_UNLISTED, "node class tenant")                                                   \
	X(EARLIER_BINDING, "node")                                                                 \
	/* The policy. problems: what gq_policy_problems_print() printed, several lines, in        \
	 * English. */                                                                             \
	X(POLICY_INVALID, "problems")                                                              \
	X(POLICY_NO_KEY, "key")                                                                    \
	/* Answers that are no decision. detail of BAD_REVIEW: of a decoder, in English. */        \
	X(NOT_SYNCED, "")                                                                          \
	X(NOT_LEADER, "")                                                                          \
	X(JOURNAL, "")                                                                             \
	X(JOURNAL_FULL, "")                                                                        \
	X(WATCH_LAGS, "")                                                                          \
	X(OVERLOADED, "")                                                                          \
	X(NO_MEMORY, "")                                                                           \
	X(TOO_LATE, "")                                                                            \
	X(BAD_REVIEW, "detail")                                                                    \
	/* Warnings. */                                                                            \
	X(WARNINGS_CUT, "")

/* What is put into sentences, or in front of them: not to be printed on its own. */
#define GQ_PHRASES(X)                                                                              \
	/* {where} of a rule */                                                                    \
	X(VOLUME_HOST_PATH, "volume path")                                                         \
	X(VOLUME_CLAIM, "volume claim name path")                                                  \
	X(VOLUME_EPHEMERAL, "volume name path")                                                    \
	X(WARNING_PREFIX, "")                                                                      \
	X(STATES, "bound pending reserved")                                                        \
	X(STATES_TERMINATING, "bound pending reserved terminating")                                \
	X(HOLDER, "holder holds")                                                                  \
	X(LIST_SEPARATOR, "")                                                                      \
	X(OR_SEPARATOR, "")                                                                        \
	X(WORKLOAD_GROWS, "")                                                                      \
	X(PATH_READ_ONLY, "path")                                                                  \
	X(ENV_FROM_MAP, "container source")                                                        \
	X(OWNER_POD, "name")                                                                       \
	X(CLASS_UNKNOWN, "")                                                                       \
	/* {pods} of WORKLOAD_SHORT. each: what one asks for, of GPUs a phrase EACH. MORE: beside  \
	 * those there are. SURGE, INSTEAD: of pods, one of these; old: what they replace */       \
	X(WORKLOAD, "workload")                                                                    \
	X(WORKLOAD_PODS_ONE, "count each")                                                         \
	X(WORKLOAD_PODS_MANY, "count each")                                                        \
	X(WORKLOAD_MORE_ONE, "count each")                                                         \
	X(WORKLOAD_MORE_MANY, "count each")                                                        \
	X(WORKLOAD_EACH, "each")                                                                   \
	X(WORKLOAD_SURGE, "pods surge")                                                            \
	X(WORKLOAD_INSTEAD, "pods old")                                                            \
	/* Amounts: gq_message_gpus() and gq_message_memory(). */                                  \
	X(UNLIMITED, "")                                                                           \
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
	X(MEMORY_OTHER, "amount")                                                                  \
	/* {detail} of UNSUPPORTED_…, where it is no product's name. */                          \
	X(KIND_NVIDIA_SLICES, "")                                                                  \
	X(KIND_NVIDIA_MEMORY, "")                                                                  \
	X(KIND_NVIDIA, "")                                                                         \
	X(KIND_AMD, "")                                                                            \
	X(KIND_AMD_HAMI, "")                                                                       \
	X(KIND_KAI, "")                                                                            \
	X(KIND_PLUGIN, "")                                                                         \
	/* {detail} of BAD_QUANTITY */                                                             \
	X(QUANTITY_LARGE, "")                                                                      \
	X(QUANTITY_NEGATIVE, "")                                                                   \
	X(QUANTITY_NONE, "")                                                                       \
	X(QUANTITY_FRACTION, "")                                                                   \
	/* {detail} of CLAIM_UNREADABLE. field: its path, spec.devices.requests[0] */              \
	X(CLAIM_CLASSES, "")                                                                       \
	X(CLAIM_NAMES_NONE, "")                                                                    \
	X(CLAIM_MANY, "")                                                                          \
	X(CLAIM_ABSENT, "")                                                                        \
	X(CLAIM_FORBIDDEN, "")                                                                     \
	X(CLAIM_FORM, "field")

#define GQ_MESSAGES(X) GQ_SENTENCES(X) GQ_PHRASES(X)

enum gq_message_id {
#define GQ_MESSAGE_ENUM(name, placeholders) GQ_MSG_##name,
	GQ_MESSAGES(GQ_MESSAGE_ENUM)
#undef GQ_MESSAGE_ENUM
	    GQ_MSG_COUNT
};

/* The tables: message_en.c, message_zh.c. */
extern const char *const gq_messages_en[GQ_MSG_COUNT];
extern const char *const gq_messages_zh[GQ_MSG_COUNT];

struct gq_message_arg {
	const char *name;  /* of the placeholder {name} */
	const char *value; /* borrowed during the call */
};

/* Appends the sentence with its placeholders filled in; control characters in values become spaces
 * and values are cut at 253 bytes (the longest name Kubernetes allows) on a character boundary:
 * list, listed, classes, holder and detail at 1024, and problems at 16 KiB with its line breaks
 * kept. A placeholder without an argument is a bug of ours and prints as "?"; arguments that the
 * sentence does not name are left alone. Returns out->code. */
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

/* Bare amounts: as gq_shares_print() and gq_mib_print(), but for the word for unlimited. */
int gq_message_shares(struct gq_buf *out, enum gq_locale locale, int64_t shares);
int gq_message_mib(struct gq_buf *out, enum gq_locale locale, int64_t mib);

/* The phrase as it stands in a sentence. */
const char *gq_phrase_text(enum gq_locale locale, const struct gq_phrase *phrase);

/* The template itself: the text of a message without placeholders. "?" for what is none. */
const char *gq_message_template(enum gq_locale locale, enum gq_message_id id);
const char *gq_message_name(enum gq_message_id id);
/* The names of a message's placeholders, with a space between them. */
const char *gq_message_placeholders(enum gq_message_id id);

#endif
