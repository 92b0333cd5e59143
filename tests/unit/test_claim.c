#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/quota_testing.h"

static int decode(const char *single_quoted, const struct gq_json_keep *keep,
		  struct gq_claim **ret_claim, struct gq_err *err)
{
	struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(65536);
	char *json = json_of(single_quoted);

	assert_int_equal(prune(json, strlen(json), keep, &kept), 0);
	free(json);
	return gq_claim_decode(kept.data, kept.len, ret_claim, err);
}

static void classes_of_every_form(void **state)
{
	static const struct {
		const char *claim;
		const char *classes;
	} cases[] = {
	    {"{'spec':{'devices':{'requests':[{'name':'g','exactly':{'deviceClassName':'a','count':"
	     "2}}]}}}",
	     "a"},
	    {"{'spec':{'devices':{'requests':[{'name':'g','firstAvailable':[{'name':'x',"
	     "'deviceClassName':'a'},{'name':'y','deviceClassName':'b'}]},"
	     "{'name':'h','exactly':{'deviceClassName':'c','allocationMode':'All'}}]}}}",
	     "a b c"},
	    {"{'spec':{'devices':{'requests':[{'name':'g','deviceClassName':'old'}]}}}", "old"},
	    {"{'spec':{'devices':{'requests':[{'exactly':{'deviceClassName':'a'},"
	     "'firstAvailable':[{'deviceClassName':'b'}]}]}}}",
	     "a b"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_claim *claim GQ_CLEANUP(gq_cleanup_claim) = NULL;
		struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(256);
		struct gq_err err = {0};
		print_message("%s\n", cases[i].claim);
		assert_int_equal(decode(cases[i].claim, gq_claim_keep, &claim, &err), 0);
		for (size_t k = 0; k < claim->n_device_classes; k++)
			gq_buf_printf(&text, "%s%s", k ? " " : "", claim->device_classes[k]);
		assert_string_equal(text.data, cases[i].classes);

		struct gq_claim *nested GQ_CLEANUP(gq_cleanup_claim) = NULL;
		struct gq_buf outer GQ_BUF_CLEANUP = GQ_BUF_INIT(4096);
		gq_buf_printf(&outer, "{'metadata':{},'spec':%s}", cases[i].claim);
		assert_int_equal(decode(outer.data, gq_claim_template_keep, &nested, &err), 0);
		assert_int_equal(nested->n_device_classes, claim->n_device_classes);
		assert_string_equal(nested->device_classes[0], claim->device_classes[0]);
	}
}

static void unknown_forms_are_refused(void **state)
{
	static const struct {
		const char *claim;
		const char *message;
	} cases[] = {
	    {"{}", "spec: asks for devices in a form that is not known"},
	    {"{'spec':{}}", "spec: asks for devices in a form that is not known"},
	    {"{'spec':{'resourceClassName':'x'}}",
	     "spec: asks for devices in a form that is not known"},
	    {"{'spec':{'devices':{'requests':[]}}}",
	     "spec: asks for devices in a form that is not known"},
	    {"{'spec':{'devices':{'requests':[{'name':'g','someOf':[]}]}}}",
	     "spec.devices.requests[0]: asks for devices in a form that is not known"},
	    {"{'spec':{'devices':{'requests':[{'exactly':{'deviceClassName':'a'}},{'exactly':null}]"
	     "}}}",
	     "spec.devices.requests[1]: asks for devices in a form that is not known"},
	    {"{'spec':{'devices':{'requests':[{'exactly':{}}]}}}",
	     "spec.devices.requests[0].exactly.deviceClassName: must be given"},
	    {"{'spec':{'devices':{'requests':[{'firstAvailable':[{'deviceClassName':'a'},{}]}]}}}",
	     "spec.devices.requests[0].firstAvailable[1].deviceClassName: must be given"},
	    {"{'spec':{'devices':{'requests':[{'firstAvailable':[]}]}}}",
	     "spec.devices.requests[0]: asks for devices in a form that is not known"},
	    {"{'spec':{'devices':{'requests':[{'deviceClassName':7}]}}}",
	     "spec.devices.requests[0].deviceClassName: must be a string"},
	    {"{'spec':{'devices':{'requests':['g']}}}",
	     "spec.devices.requests[0]: must be an object"},
	    {"{'spec':{'devices':[]}}", "spec.devices: must be an object"},
	    {"{'spec':7}", "spec: must be an object"},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_claim *claim = NULL;
		struct gq_err err = {0};
		print_message("%s\n", cases[i].claim);
		char *json = json_of(cases[i].claim);
		assert_int_equal(gq_claim_decode(json, strlen(json), &claim, &err), GQ_EINVALID);
		free(json);
		assert_null(claim);
		assert_string_equal(err.msg, cases[i].message);
		/* nor does the keep tree hide the form */
		assert_int_not_equal(decode(cases[i].claim, gq_claim_keep, &claim, NULL), 0);
	}
	gq_claim_free(NULL);
}

#define CLASS(name, selectors)                                                                     \
	"{'metadata':{'name':'" name "'},'spec':{'selectors':[" selectors "]}}"
#define CEL(expression) "{'cel':{'expression':'" expression "'}}"

static void harmless_classes(void **state)
{
	static const struct {
		const char *class_;
		bool harmless;
	} cases[] = {
	    {CLASS("nic", CEL("device.driver == \\'nic.example.com\\'")), true},
	    {CLASS("nic", CEL("device.driver==`nic.example.com`")), true},
	    {CLASS("nic", CEL("`nic.example.com` == device . driver")), true},
	    {CLASS("nic", CEL("device.driver in [`nic.example.com`, `b.example.com`]")), true},
	    {CLASS("nic", CEL("device.attributes[`x`].a || true") "," CEL("device.driver == `b`")),
	     true},
	    {CLASS("nic", CEL("(a || b) && device.driver == `nic.example.com` && c ? d : e")),
	     false},
	    {CLASS("nic", CEL("(a || b) && device.driver == `nic.example.com` && f(c ? d : e)")),
	     true},
	    {CLASS("nic",
		   CEL("device.driver == `nic.example.com`\\n&& device.attributes[`x.y`].z > 3")),
	     true},
	    {CLASS("channels", CEL("device.driver == `compute-domain.nvidia.com`")), true},
	    /* no proof */
	    {"{}", false},
	    {"{'metadata':{'name':'nic'},'spec':{}}", false},
	    {CLASS("nic", ""), false},
	    {CLASS("nic", CEL("")), false},
	    {CLASS("nic", "{}"), false},
	    {CLASS("nic", CEL("true")), false},
	    {CLASS("nic", CEL("device.driver != `nic.example.com`")), false},
	    {CLASS("nic", CEL("!(device.driver == `nic.example.com`)")), false},
	    {CLASS("nic", CEL("device.driver == `nic.example.com` || true")), false},
	    {CLASS("nic", CEL("device.driver == `nic.example.com` ? true : true")), false},
	    {CLASS("nic", CEL("device.driver == `nic.example.com` == false")), false},
	    {CLASS("nic", CEL("!true && !device.driver == `nic.example.com`")), false},
	    {CLASS("nic", CEL("other.device.driver == `nic.example.com`")), false},
	    {CLASS("nic", CEL("device.driver.x == `nic.example.com`")), false},
	    {CLASS("nic", CEL("device.drivers == `nic.example.com`")), false},
	    {CLASS("nic", CEL("device.driver == x")), false},
	    {CLASS("nic", CEL("device.driver == r`nic.example.com`")), false},
	    {CLASS("nic", CEL("device.driver == `nic\\\\x67.example.com`")), false},
	    {CLASS("nic", CEL("device.driver == ```nic.example.com```")), false},
	    {CLASS("nic", CEL("device.driver == `nic.example.com")), false},
	    {CLASS("nic", CEL("device.driver == ``")), false},
	    {CLASS("nic", CEL("true // && device.driver == `nic.example.com`")), false},
	    {CLASS("nic", CEL("true //\\n && device.driver == `nic.example.com`")), false},
	    {CLASS("nic", CEL("`a && device.driver == \\'nic.example.com\\' && b` == x")), false},
	    {CLASS("nic", CEL("device.driver == `nic.example.com`) && (true")), false},
	    {CLASS("nic", CEL("(device.driver == `nic.example.com`")), false},
	    {CLASS("nic", CEL("[device.driver == `nic.example.com` && x][0] && y")), false},
	    {CLASS("nic", CEL("device.driver in [`nic.example.com`,, `b`]")), false},
	    {CLASS("nic", CEL("device.driver in [`nic.example.com`] + x")), false},
	    {CLASS("nic", CEL("device.driver in x")), false},
	    {CLASS("nic", CEL("device.driver == `nic.example.com` \\u00e9")), false},
	    /* proof of the contrary */
	    {CLASS("gpu.nvidia.com", CEL("device.driver == `nic.example.com`")), false},
	    {CLASS("any", CEL("device.driver == `gpu.nvidia.com`")), false},
	    {CLASS("any", CEL("device.driver == `other.nvidia.com`")), false},
	    {CLASS("any", CEL("device.driver in [`nic.example.com`, `gpu.amd.com`]")), false},
	    {CLASS("any",
		   CEL("device.driver == `nic.example.com` && device.driver == `gpu.amd.com`")),
	     false},
	    {"{'metadata':{'name':'nic'},'spec':{'extendedResourceName':'nvidia.com/"
	     "gpu','selectors':[" CEL("device.driver == `nic.example.com`") "]}}",
	     false},
	    {"{'metadata':{'name':'nic'},'spec':{'extendedResourceName':'example.com/"
	     "nic','selectors':[" CEL("device.driver == `nic.example.com`") "]}}",
	     true},
	};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		struct gq_buf kept GQ_BUF_CLEANUP = GQ_BUF_INIT(65536);
		struct gq_buf text GQ_BUF_CLEANUP = GQ_BUF_INIT(65536);
		/* in the table ` is a double quote of CEL and \' a single one */
		for (const char *c = cases[i].class_; *c; c++) {
			if (*c == '`')
				gq_buf_puts(&text, "\\\"");
			else if (c[0] == '\\' && c[1] == '\'')
				gq_buf_putc(&text, *++c);
			else
				gq_buf_putc(&text, *c == '\'' ? '"' : *c);
		}
		struct gq_err err = {0};
		bool harmless = !cases[i].harmless;
		print_message("%s\n", text.data);
		assert_int_equal(prune(text.data, text.len, gq_device_class_keep, &kept), 0);
		assert_int_equal(gq_device_class_decode(kept.data, kept.len, &harmless, &err), 0);
		assert_int_equal(harmless, cases[i].harmless);
	}
}

static void bad_classes(void **state)
{
	static const char *const cases[] = {"[]",
					    "{'spec':[]}",
					    "{'spec':{'selectors':{}}}",
					    "{'spec':{'selectors':[1]}}",
					    "{'spec':{'selectors':[{'cel':1}]}}",
					    "{'spec':{'selectors':[{'cel':{'expression':1}}]}}",
					    "{'spec':{'extendedResourceName':1}}",
					    "{'metadata':{'name':1}}"};

	(void)state;
	for (size_t i = 0; i < LEN(cases); i++) {
		char *json = json_of(cases[i]);
		bool harmless = true;
		assert_int_equal(gq_device_class_decode(json, strlen(json), &harmless, NULL),
				 GQ_EINVALID);
		assert_true(harmless); /* untouched */
		free(json);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(classes_of_every_form),
	    cmocka_unit_test(unknown_forms_are_refused),
	    cmocka_unit_test(harmless_classes),
	    cmocka_unit_test(bad_classes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
