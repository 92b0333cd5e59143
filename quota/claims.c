#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quota/decision_internal.h"
#include "quota/message.h"

/* Resource claims (DRA): this version counts none, so a pod with claims passes only when every
 * DeviceClass behind them is proven to be of no GPU. The objects are read as they are now: of a
 * template's pods, which come later, what does not exist yet says nothing. */

void gq_reads_done(struct gq_reads *reads)
{
	for (size_t i = 0; i < reads->n; i++)
		free(reads->items[i].body);
	reads->n = 0;
}

struct gq_read *gq_reads_get(struct gq_reads *reads, enum gq_read_kind kind, const char *path,
			     const struct gq_json_keep *keep)
{
	for (size_t i = 0; i < reads->n; i++)
		if (strcmp(reads->items[i].path, path) == 0)
			return &reads->items[i];
	if (reads->n == GQ_READS_MAX)
		return NULL;
	struct gq_read *read = &reads->items[reads->n];
	*read = (struct gq_read){.kind = kind, .keep = keep};
	int n = snprintf(read->path, sizeof read->path, "%s", path);
	if (n < 0 || (size_t)n >= sizeof read->path)
		return NULL;
	reads->n++;
	return read;
}

struct check {
	const struct gq_pod *pod;
	struct gq_reads *reads;
	enum gq_locale locale;
	struct gq_buf *message;
};

static enum gq_claims_verdict refuse_unreadable(const struct check *check, const char *claim,
						enum gq_message_id why)
{
	gq_explain_claim_unreadable(check->message, check->locale, claim,
				    gq_message_template(check->locale, why));
	return GQ_CLAIMS_REFUSED;
}

/* err: of the decoder, "PATH: what is wrong" */
static enum gq_claims_verdict refuse_form(const struct check *check, const char *claim,
					  const struct gq_err *err)
{
	struct gq_buf detail GQ_BUF_CLEANUP = GQ_BUF_INIT(1024);
	char field[sizeof err->msg];

	(void)snprintf(field, sizeof field, "%.*s", (int)strcspn(err->msg, ":"), err->msg);
	gq_message_print(&detail, check->locale, GQ_MSG_CLAIM_FORM,
			 &(struct gq_message_arg){"field", field}, 1);
	gq_explain_claim_unreadable(check->message, check->locale, claim,
				    detail.data ? detail.data : field);
	return GQ_CLAIMS_REFUSED;
}

static enum gq_claims_verdict refuse_class(const struct check *check, const char *claim,
					   const char *device_class)
{
	const struct gq_message_arg args[] = {{"claim", claim}, {"device_class", device_class}};

	gq_message_print(check->message, check->locale, GQ_MSG_CLASS_UNREADABLE, args,
			 sizeof args / sizeof *args);
	return GQ_CLAIMS_REFUSED;
}

/* One DeviceClass, on behalf of the claim named; NULL: of the resource name that stands for it. */
static enum gq_claims_verdict check_class(const struct check *check, const char *claim,
					  const char *device_class)
{
	char resource[320];
	char path[320];
	bool harmless = false;
	struct gq_err err;

	if (!claim) {
		(void)snprintf(resource, sizeof resource, "deviceclass.resource.kubernetes.io/%s",
			       device_class);
		claim = resource;
	}
	if (gq_gpu_device_name(device_class) || !gq_object_name_ok(device_class)) {
		gq_explain_claim(check->message, check->locale, claim, device_class);
		return GQ_CLAIMS_REFUSED;
	}
	(void)snprintf(path, sizeof path, "/apis/resource.k8s.io/v1/deviceclasses/%s",
		       device_class);
	const struct gq_read *read =
	    gq_reads_get(check->reads, GQ_READ_DEVICE_CLASS, path, gq_device_class_keep);
	if (!read)
		return refuse_unreadable(check, claim, GQ_MSG_CLAIM_CLASSES);
	if (!read->done)
		return GQ_CLAIMS_READ;
	if (read->code == GQ_ENOTFOUND && gq_pod_is_template(check->pod))
		return GQ_CLAIMS_HARMLESS;
	if (read->code == GQ_ENOTFOUND || read->code == GQ_EDENIED)
		return refuse_class(check, claim, device_class);
	if (read->code)
		return GQ_CLAIMS_FAILED;
	if (gq_device_class_decode(read->body, read->len, &harmless, &err) || !harmless) {
		gq_explain_claim(check->message, check->locale, claim, device_class);
		return GQ_CLAIMS_REFUSED;
	}
	return GQ_CLAIMS_HARMLESS;
}

static enum gq_claims_verdict check_claim(const struct check *check,
					  const struct gq_pod_claim *claim)
{
	const struct gq_pod *pod = check->pod;
	bool template = claim->template[0] != '\0';
	const char *object = template ? claim->template : claim->claim;
	struct gq_claim *decoded GQ_CLEANUP(gq_cleanup_claim) = NULL;
	enum gq_claims_verdict verdict = GQ_CLAIMS_HARMLESS;
	struct gq_err err;
	char path[640];

	if (!gq_object_name_ok(object) || !gq_object_name_ok(pod->namespace_))
		return refuse_unreadable(check, claim->name, GQ_MSG_CLAIM_NAMES_NONE);
	(void)snprintf(path, sizeof path, "/apis/resource.k8s.io/v1/namespaces/%s/%s/%s",
		       pod->namespace_, template ? "resourceclaimtemplates" : "resourceclaims",
		       object);
	const struct gq_read *read =
	    gq_reads_get(check->reads, template ? GQ_READ_CLAIM_TEMPLATE : GQ_READ_CLAIM, path,
			 template ? gq_claim_template_keep : gq_claim_keep);
	if (!read)
		return refuse_unreadable(check, claim->name, GQ_MSG_CLAIM_MANY);
	if (!read->done)
		return GQ_CLAIMS_READ;
	if (read->code == GQ_ENOTFOUND && gq_pod_is_template(pod))
		return GQ_CLAIMS_HARMLESS;
	if (read->code == GQ_ENOTFOUND)
		return refuse_unreadable(check, claim->name, GQ_MSG_CLAIM_ABSENT);
	if (read->code == GQ_EDENIED)
		return refuse_unreadable(check, claim->name, GQ_MSG_CLAIM_FORBIDDEN);
	if (read->code)
		return GQ_CLAIMS_FAILED;
	int code = gq_claim_decode(read->body, read->len, &decoded, &err);
	if (code == GQ_ENOMEM)
		return GQ_CLAIMS_FAILED;
	if (code)
		return refuse_form(check, claim->name, &err);
	for (size_t i = 0; i < decoded->n_device_classes; i++) {
		enum gq_claims_verdict one =
		    check_class(check, claim->name, decoded->device_classes[i]);
		if (one == GQ_CLAIMS_REFUSED || one == GQ_CLAIMS_FAILED)
			return one;
		if (one == GQ_CLAIMS_READ)
			verdict = one;
	}
	return verdict;
}

enum gq_claims_verdict gq_claims_check(const struct gq_pod *pod, struct gq_reads *reads,
				       enum gq_locale locale, struct gq_buf *message)
{
	const struct check check = {pod, reads, locale, message};
	enum gq_claims_verdict verdict = GQ_CLAIMS_HARMLESS;

	/* Every object is asked for before the first answer is waited for. */
	for (size_t i = 0; i < pod->n_claims + pod->n_device_classes; i++) {
		enum gq_claims_verdict one =
		    i < pod->n_claims
			? check_claim(&check, &pod->claims[i])
			: check_class(&check, NULL, pod->device_classes[i - pod->n_claims]);
		if (one == GQ_CLAIMS_REFUSED || one == GQ_CLAIMS_FAILED)
			return one;
		if (one == GQ_CLAIMS_READ)
			verdict = one;
	}
	return verdict;
}
