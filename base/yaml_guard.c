#include "base/yaml_guard.h"

#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"

#define EMPTY_LINES_MAX 1000

static bool is_white(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* libfyaml 0.7.12 takes from the stack, without a limit, the length of a directive and some bytes
 * for each line end in a run of empty lines; it never comes back from a directive that holds
 * invalid UTF-8; and it frees a key twice when behind the ":" of an explicit key ("? ") a tab is
 * out of place. */
enum gq_yaml_fault gq_yaml_guard(const char *bytes, size_t len, struct gq_yaml_place *ret_at)
{
	struct gq_yaml_place at = {0, 1, 1};
	struct gq_yaml_place mark = {0, 0,
				     0}; /* a "?" that may begin an explicit key; line 0: none */
	enum gq_yaml_fault fault = GQ_YAML_FAULT_NONE;
	unsigned line_ends = 0; /* with nothing but white space between */
	bool begins = true;     /* a line; a byte order mark leaves it so */

	while (at.offset < len) {
		const char *p = bytes + at.offset;
		unsigned char c = (unsigned char)*p;
		size_t left = len - at.offset, width = gq_utf8_width(p, left);
		bool ends = c == '\n' || c == '\r';
		if (ends)
			line_ends++;
		else if (c != ' ' && c != '\t')
			line_ends = 0;
		if (c == '?' && !mark.line && (left == 1 || is_white(p[1])))
			mark = at;
		if (!width)
			fault = GQ_YAML_FAULT_NOT_UTF8;
		else if ((c < 0x20 && !ends && c != '\t') || c == 0x7f)
			fault = GQ_YAML_FAULT_CONTROL;
		else if (c == '%' && begins)
			fault = GQ_YAML_FAULT_DIRECTIVE;
		else if (line_ends > EMPTY_LINES_MAX)
			fault = GQ_YAML_FAULT_EMPTY_LINES;
		else if (c == '\t' && mark.line)
			fault = GQ_YAML_FAULT_KEY_AND_TAB;
		if (fault) {
			*ret_at = fault == GQ_YAML_FAULT_KEY_AND_TAB ? mark : at;
			return fault;
		}
		begins = ends || (begins && width == 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0);
		at.offset += width;
		at.column++;
		if (c == '\n') {
			at.line++;
			at.column = 1;
		}
	}
	return GQ_YAML_FAULT_NONE;
}
