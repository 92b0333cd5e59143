#include "quota/policy_impl.h"

#include <string.h>

#include "quota/quantity.h"

#define MIB (INT64_C(1) << 20)

const char *const gq_policy_modes[] = {"enforce", "warn", "audit", NULL};
const char *const gq_policy_rule_modes[] = {"enforce", "warn", "audit", "disabled", NULL};

const char *gq_mode_name(enum gq_mode mode)
{
	return gq_policy_rule_modes[mode];
}

static const char *kind_name(const struct gq_yaml_node *node)
{
	if (node->kind == GQ_YAML_LIST)
		return "a list";
	if (node->kind == GQ_YAML_MAP)
		return "a map";
	switch (node->scalar) {
	case GQ_YAML_NUMBER:
		return "a number";
	case GQ_YAML_BOOLEAN:
		return "true or false";
	case GQ_YAML_NULL:
		return "nothing";
	default:
		return "text";
	}
}

static bool fits(const struct gq_yaml_node *node, enum gq_policy_type type)
{
	bool scalar = node->kind == GQ_YAML_SCALAR;

	switch (type) {
	case GQ_POLICY_TEXT:
		return scalar && node->scalar == GQ_YAML_TEXT;
	case GQ_POLICY_SCALAR:
		return scalar && node->scalar != GQ_YAML_NULL;
	case GQ_POLICY_LIST:
		return node->kind == GQ_YAML_LIST;
	case GQ_POLICY_MAP:
		return node->kind == GQ_YAML_MAP;
	default:
		return true;
	}
}

bool gq_policy_expect(struct gq_policy_reader *r, const struct gq_yaml_node *node, const char *what,
		      enum gq_policy_type type)
{
	static const char *const wanted[] = {
	    [GQ_POLICY_ANY] = "a value", [GQ_POLICY_REFUSED] = "a value",
	    [GQ_POLICY_TEXT] = "text",   [GQ_POLICY_SCALAR] = "a single value",
	    [GQ_POLICY_LIST] = "a list", [GQ_POLICY_MAP] = "a map",
	};
	struct gq_hint hint;
	const char *advice;

	if (node->kind == GQ_YAML_BROKEN)
		return false;
	if (fits(node, type))
		return true;
	bool scalar = node->kind == GQ_YAML_SCALAR;
	if (scalar && node->scalar == GQ_YAML_NULL)
		advice = node->key ? "write a value, or remove the key"
				   : "write a value, or remove the item";
	else if (type == GQ_POLICY_TEXT && scalar)
		advice = gq_hint(&hint, "for text write %s, with quotes", GQ_QUOTE(node));
	else if (type == GQ_POLICY_LIST && scalar)
		advice = gq_hint(&hint, "write [%s]", GQ_QUOTE(node));
	else if (type == GQ_POLICY_LIST)
		advice = "begin each item with \"- \", or write [a, b]";
	else if (type == GQ_POLICY_MAP)
		advice = "write {key: value}, or \"key: value\" on lines further in";
	else
		advice = "write one value";
	GQ_REPORT(r, node, advice, "%s: %s where %s is expected", what, kind_name(node),
		  wanted[type]);
	return false;
}

static void unknown_key(struct gq_policy_reader *r, const struct gq_yaml_node *key,
			const struct gq_policy_field *fields, size_t n_fields)
{
	struct gq_nearest nearest = gq_nearest_to(key->text, key->len);
	struct gq_buf GQ_BUF_CLEANUP known = GQ_BUF_INIT(300);
	struct gq_hint hint;

	for (size_t i = 0; i < n_fields; i++) {
		if (fields[i].type == GQ_POLICY_REFUSED)
			continue;
		gq_nearest_offer(&nearest, fields[i].key);
		gq_buf_printf(&known, "%s%s", known.len ? ", " : "", fields[i].key);
	}
	if (known.code) {
		r->failed = true;
		return;
	}
	if (nearest.best)
		gq_hint(&hint, "did you mean \"%s\"?", nearest.best);
	else
		gq_hint(&hint, "known here: %s", known.data);
	GQ_REPORT(r, key, hint.text, "unknown key %s", GQ_QUOTE(key));
}

bool gq_policy_fields(struct gq_policy_reader *r, const struct gq_yaml_node *node, const char *what,
		      const struct gq_policy_field *fields, size_t n_fields,
		      const struct gq_yaml_node **values)
{
	bool whole = true;
	uint64_t seen = 0;

	for (size_t i = 0; i < n_fields; i++)
		values[i] = NULL;
	if (!gq_policy_expect(r, node, what, GQ_POLICY_MAP))
		return false;
	for (const struct gq_yaml_node *value = node->first; value; value = value->next) {
		size_t i = 0;
		while (i < n_fields && strcmp(fields[i].key, value->key->text) != 0)
			i++;
		if (i == n_fields) {
			unknown_key(r, value->key, fields, n_fields);
			continue;
		}
		seen |= UINT64_C(1) << i;
		if (fields[i].required && value->kind == GQ_YAML_SCALAR &&
		    value->scalar == GQ_YAML_NULL)
			GQ_REPORT(r, value, fields[i].hint, "%s: nothing where a value is expected",
				  fields[i].key);
		else if (gq_policy_expect(r, value, fields[i].key, fields[i].type))
			values[i] = value;
	}
	for (size_t i = 0; i < n_fields; i++) {
		if (!fields[i].required)
			continue;
		if (!values[i])
			whole = false;
		if (!(seen >> i & 1))
			GQ_REPORT(r, node, fields[i].hint, "%s: key \"%s\" is missing", what,
				  fields[i].key);
	}
	return whole;
}

bool gq_policy_has(const struct gq_yaml_node *map, const char *key)
{
	for (const struct gq_yaml_node *v = map->first; v; v = v->next)
		if (strcmp(v->key->text, key) == 0)
			return true;
	return false;
}

/* YAML 1.1 had these for false, and people still write them. */
static bool means_off(const char *text)
{
	return strcasecmp(text, "off") == 0 || strcasecmp(text, "no") == 0 ||
	       strcasecmp(text, "false") == 0 || strcasecmp(text, "none") == 0 ||
	       strcasecmp(text, "disabled") == 0;
}

int gq_policy_word(struct gq_policy_reader *r, const struct gq_yaml_node *node, const char *what,
		   const char *const *words)
{
	struct gq_buf GQ_BUF_CLEANUP known = GQ_BUF_INIT(200);
	struct gq_hint hint;

	if (!node || !gq_policy_expect(r, node, what, GQ_POLICY_SCALAR))
		return -1;
	struct gq_nearest nearest = gq_nearest_to(node->text, node->len);
	bool off = means_off(node->text);
	for (int i = 0; words[i]; i++)
		if (strcmp(words[i], node->text) == 0)
			return i;
	for (int i = 0; words[i]; i++) {
		gq_nearest_offer(&nearest, words[i]);
		gq_buf_printf(&known, "%s%s", i ? ", " : "", words[i]);
		if (off && strcmp(words[i], "disabled") == 0)
			nearest = (struct gq_nearest){.best = words[i]};
	}
	/* to two letters any word is near */
	bool near = nearest.best && (node->len > 2 || strcasecmp(nearest.best, node->text) == 0 ||
				     (off && strcmp(nearest.best, "disabled") == 0));
	if (near)
		gq_hint(&hint, "did you mean \"%s\"?", nearest.best);
	else if (off && words == gq_policy_modes)
		gq_hint(&hint, "write audit to refuse nothing");
	else
		gq_hint(&hint, "write one of these words");
	if (known.code)
		r->failed = true;
	else
		GQ_REPORT(r, node, hint.text, "%s %s is not one of %s", what, GQ_QUOTE(node),
			  known.data);
	return -1;
}

enum gq_locale gq_policy_locale(struct gq_policy_reader *r, const struct gq_yaml_node *node,
				enum gq_locale inherited)
{
	int locale = gq_policy_word(r, node, "locale", gq_locale_names);

	return locale < 0 ? inherited : (enum gq_locale)locale;
}

/* A leading zero makes an octal number for some readers of YAML and a decimal one for others. */
static bool leading_zero(const struct gq_yaml_node *node)
{
	return node->len > 1 && node->text[0] == '0' && node->text[1] >= '0' &&
	       node->text[1] <= '9';
}

static bool digits_only(const char *text)
{
	return *text && text[strspn(text, "0123456789")] == '\0';
}

static bool refuse_number_form(struct gq_policy_reader *r, const struct gq_yaml_node *node,
			       const char *what)
{
	struct gq_hint hint;

	if (node->text[0] == '-') {
		GQ_REPORT(r, node, "write 0 to allow none", "%s: %s is negative", what,
			  GQ_QUOTE(node));
		return true;
	}
	if (leading_zero(node)) {
		const char *rest = node->text + strspn(node->text, "0");
		gq_hint(&hint, "write %.40s", *rest >= '0' && *rest <= '9' ? rest : rest - 1);
		GQ_REPORT(r, node, hint.text, "%s: %s could be meant as an octal number", what,
			  GQ_QUOTE(node));
		return true;
	}
	return false;
}

bool gq_policy_gpus(struct gq_policy_reader *r, const struct gq_yaml_node *node,
		    int64_t *ret_shares)
{
	struct gq_hint hint;
	int64_t shares;
	enum gq_exactness exact;

	if (!gq_policy_expect(r, node, "gpus", GQ_POLICY_SCALAR) ||
	    refuse_number_form(r, node, "gpus"))
		return false;
	int code =
	    gq_quantity_units(node->text, node->len, GQ_SHARES_PER_GPU, &shares, &exact, NULL);
	if (code == GQ_ETOOBIG) {
		GQ_REPORT(r, node, "leave gpus out for no limit",
			  "gpus: %s is more than can be counted", GQ_QUOTE(node));
		return false;
	}
	if (code || node->text[strspn(node->text, "0123456789.")] != '\0') {
		struct gq_buf GQ_BUF_CLEANUP plain = GQ_BUF_INIT(64);
		gq_hint(&hint, "write how many GPUs, such as 4 or 0.5");
		if (!code && !gq_shares_print(&plain, shares))
			gq_hint(&hint, "write %s", plain.data);
		if (plain.code)
			r->failed = true;
		GQ_REPORT(r, node, hint.text, "gpus: %s is not a plain decimal number",
			  GQ_QUOTE(node));
		return false;
	}
	*ret_shares = exact == GQ_ROUNDED ? shares - 1 : shares;
	return true;
}

bool gq_policy_expect_limit(struct gq_policy_reader *r, const struct gq_yaml_node *node,
			    const char *what)
{
	struct gq_hint hint;

	if (node->kind != GQ_YAML_SCALAR || node->scalar == GQ_YAML_NULL)
		return true;
	/* no other text, since what is cut off may be half a character */
	gq_hint(&hint, "write {gpus: %.40s}", node->scalar == GQ_YAML_NUMBER ? node->text : "4");
	GQ_REPORT(r, node, hint.text, "%s: a single value where a map is expected", what);
	return false;
}

/* "80GB", "80 gi": what was probably meant. */
static void guess_memory(struct gq_hint *hint, const char *text)
{
	size_t digits = strspn(text, "0123456789.");
	const char *unit = text + digits + strspn(text + digits, " ");
	static const char small[] = "kmgtp", large[] = "KMGTP";

	for (size_t i = 0; small[i] && digits > 0 && digits < 20; i++) {
		if (*unit == small[i] || *unit == large[i]) {
			gq_hint(hint, "did you mean \"%.*s%ci\"?", (int)digits, text, large[i]);
			return;
		}
	}
	gq_hint(hint, "write bytes with a unit, such as 80Gi");
}

bool gq_policy_memory(struct gq_policy_reader *r, const struct gq_yaml_node *node, int64_t *ret_mib)
{
	struct gq_hint hint;
	int64_t bytes;
	enum gq_exactness exact;

	if (!gq_policy_expect(r, node, "memory", GQ_POLICY_SCALAR) ||
	    refuse_number_form(r, node, "memory"))
		return false;
	int code = gq_quantity_units(node->text, node->len, 1, &bytes, &exact, NULL);
	if (code == GQ_ETOOBIG) {
		GQ_REPORT(r, node, "leave memory out for no limit",
			  "memory: %s is more than can be counted", GQ_QUOTE(node));
		return false;
	}
	if (code) {
		guess_memory(&hint, node->text);
		GQ_REPORT(r, node, hint.text, "memory: %s is not a Kubernetes quantity of bytes",
			  GQ_QUOTE(node));
		return false;
	}
	if (bytes > 0 && bytes < MIB) {
		gq_hint(&hint, "write a unit, such as 80Gi");
		if (node->len <= 4 && digits_only(node->text))
			gq_hint(&hint, "did you mean \"%sGi\"?", node->text);
		GQ_REPORT(r, node, hint.text, "memory: %s is less than one MiB (these are bytes)",
			  GQ_QUOTE(node));
		return false;
	}
	*ret_mib = bytes / MIB;
	return true;
}

static bool alphanumeric(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Source: k8s.io/apimachinery/pkg/util/validation, validation.go. */
bool gq_policy_is_dns_label(const char *text, size_t len)
{
	if (len == 0 || len > 63 || text[0] == '-' || text[len - 1] == '-')
		return false;
	for (size_t i = 0; i < len; i++)
		if (text[i] != '-' &&
		    (!alphanumeric(text[i]) || (text[i] >= 'A' && text[i] <= 'Z')))
			return false;
	return true;
}

bool gq_policy_is_label_value(const char *text, size_t len)
{
	if (len == 0)
		return true;
	if (len > 63 || !alphanumeric(text[0]) || !alphanumeric(text[len - 1]))
		return false;
	for (size_t i = 0; i < len; i++)
		if (!alphanumeric(text[i]) && !strchr("-_.", text[i]))
			return false;
	return true;
}

bool gq_policy_is_dns_subdomain(const char *text, size_t len)
{
	size_t start = 0;

	if (len > 253)
		return false;
	for (size_t i = 0; i <= len; i++) {
		if (i < len && text[i] != '.')
			continue;
		if (!gq_policy_is_dns_label(text + start, i - start))
			return false;
		start = i + 1;
	}
	return true;
}

bool gq_policy_is_label_key(const char *text, size_t len)
{
	const char *slash = memchr(text, '/', len);

	if (slash) {
		size_t prefix = (size_t)(slash - text);
		if (!gq_policy_is_dns_subdomain(text, prefix))
			return false;
		text = slash + 1;
		len -= prefix + 1;
	}
	return len > 0 && gq_policy_is_label_value(text, len);
}

const char *gq_policy_keep(struct gq_policy_reader *r, const struct gq_yaml_node *node)
{
	const char *copy = gq_pool_copy(r->pool, node->text, node->len);

	return copy ? copy : "";
}

const char *const *gq_policy_namespaces(struct gq_policy_reader *r, const struct gq_yaml_node *list,
					size_t *ret_n)
{
	const char **names = gq_pool_alloc(r->pool, list->n, sizeof *names);
	size_t n = 0;

	if (!names) {
		*ret_n = 0;
		return NULL;
	}
	for (const struct gq_yaml_node *item = list->first; item; item = item->next) {
		if (!gq_policy_expect(r, item, "namespace", GQ_POLICY_TEXT))
			continue;
		if (!gq_policy_is_dns_label(item->text, item->len)) {
			GQ_REPORT(r, item,
				  strpbrk(item->text, "*?")
				      ? "patterns are not supported: name each namespace"
				      : "use a-z, 0-9 and \"-\", at most 63 characters",
				  "%s is not the name of a namespace", GQ_QUOTE(item));
			continue;
		}
		names[n++] = gq_policy_keep(r, item);
	}
	*ret_n = n;
	return names;
}
